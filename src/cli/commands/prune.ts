// `perdure prune`: what it takes, and how that is read.
import type { Command } from "commander";
import type { ThreadId } from "../../core/ids.js";
import { PRUNED_OUTCOMES } from "../../core/retention.js";
import { choiceArgument, idArgument } from "../arguments.js";
import { answering, duration, type Flags, list, place, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addPrune(program: Command, open: Open): void {
  answering(program, "prune", "forget old states and what only they needed; without options as langgraph.json says")
    .option("--keep-latest <number>", "how many of the newest states of each branch stay (default: 1)")
    .option("--older-than <time>", "only states older than this go, like 12h, 30d or 8w")
    .option("--outcome <names>", 'only what runs with these outcomes left goes, like "success,error"')
    .option("--thread <id>", "one thread")
    .option("--graph <id>", "threads of one graph")
    .option("--dry-run", "only say what would go")
    .action(async (flags: Flags) => {
      const thread = text(flags.thread);
      const outcomes = list(flags.outcome);
      const wanted = {
        keepLatest: whole(flags.keepLatest, "--keep-latest", { min: 1, max: 1_000_000 }),
        olderThanMs: duration(flags.olderThan, "--older-than"),
        outcomes: outcomes?.map((name) => choiceArgument(name, "--outcome", PRUNED_OUTCOMES)) ?? null,
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        graphId: text(flags.graph),
        dryRun: flags.dryRun === true,
      };
      const { prune } = await import("../prune.js");
      await open.parts(place(flags), { bodies: true }, ({ deps, owner, leaseMs, retention }, print) =>
        prune(deps, { ...wanted, owner, leaseMs, configured: retention }, print),
      );
    });
}
