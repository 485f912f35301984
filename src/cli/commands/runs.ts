// `perdure runs`: its commands, and how what they take is read.
import { userInfo } from "node:os";
import type { Command } from "commander";
import { DEFAULT_TENANT, type RunId, type ThreadId } from "../../core/ids.js";
import type { RunStatus } from "../../core/run.js";
import { idArgument } from "../arguments.js";
import { answering, choice, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

const STATUSES = [
  "pending",
  "running",
  "interrupted",
  "success",
  "error",
  "timeout",
] as const satisfies readonly RunStatus[];

const ofRun = (id: string): RunId => idArgument<RunId>(id, "a run");

export function addRuns(program: Command, open: Open): void {
  const runs = program.command("runs").description("what ran, and what became of it");
  addLs(runs, open);
  answering(runs, "show <run>", "show a run and its events").action(async (run: string, flags: Flags) => {
    const runId = ofRun(run);
    const { runsShow } = await import("../runs.js");
    await open.parts(place(flags), { bodies: true }, ({ deps }, print) => runsShow(deps, runId, print));
  });
  addTelling(runs, open, "story", "tell what happened to a run, and what it waits for");
  addTelling(runs, open, "events", "list the events and checkpoints of a run");
  addResolving(runs, open, "retry", "go on with a run that ended in error, from its last checkpoint");
  addResolving(runs, open, "close", "leave a run that waits for a person as it is");
}

function addLs(runs: Command, open: Open): void {
  answering(runs, "ls", "list runs, newest first")
    .option("--status <status>", `one of ${STATUSES.join(", ")}`)
    .option("--thread <id>", "runs of one thread")
    .option("--graph <id>", "runs of one graph")
    .option("--needs-attention", "only those that failed and wait for a person")
    .option("--limit <number>", "how many", "20")
    .action(async (flags: Flags) => {
      const thread = text(flags.thread);
      const filter = {
        status: choice(flags.status, "--status", STATUSES),
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        graphId: text(flags.graph),
        needsAttention: flags.needsAttention === true,
        limit: whole(flags.limit, "--limit", ROWS) ?? 20,
      };
      const { runsLs } = await import("../runs.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => runsLs(deps, filter, print));
    });
}

function addTelling(runs: Command, open: Open, how: "story" | "events", description: string): void {
  answering(runs, `${how} <run>`, description).action(async (run: string, flags: Flags) => {
    const runId = ofRun(run);
    const { runsEvents, runsStory } = await import("../story.js");
    const tell = how === "story" ? runsStory : runsEvents;
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => tell(deps, runId, print));
  });
}

function addResolving(runs: Command, open: Open, how: "retry" | "close", description: string): void {
  answering(runs, `${how} <run>`, description)
    .option("--as <name>", "who decides (default: this machine's user)")
    .action(async (run: string, flags: Flags) => {
      const decided = {
        tenantId: DEFAULT_TENANT,
        runId: ofRun(run),
        by: text(flags.as) ?? userInfo().username,
      };
      const { runsClose, runsRetry } = await import("../runs.js");
      await open.parts(place(flags), { bodies: true }, ({ deps, moveAfterMs }, print) =>
        how === "retry" ? runsRetry(deps, decided, print) : runsClose(deps, { ...decided, moveAfterMs }, print),
      );
    });
}
