// `perdure effects`: its commands, and how what they take is read.
import type { Command } from "commander";
import type { RunId, ThreadId } from "../../core/ids.js";
import { EFFECT_STATUSES } from "../../effects/effect.js";
import { idArgument } from "../arguments.js";
import { answering, choice, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addEffects(program: Command, open: Open): void {
  const effects = program.command("effects").description("what tools did, or may have done");
  answering(effects, "ls", "list calls of tools, newest first")
    .option("--run <run>", "those of a run")
    .option("--thread <thread>", "those of a thread")
    .option("--state <state>", `one of ${EFFECT_STATUSES.join(", ")}`)
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const [run, thread] = [text(flags.run), text(flags.thread)];
      const filter = {
        runId: run === null ? null : idArgument<RunId>(run, "a run"),
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        status: choice(flags.state, "--state", EFFECT_STATUSES),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { effectsLs } = await import("../effects.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => effectsLs(deps, filter, print));
    });
}
