// `perdure threads`: its commands, and how what they take is read.
import type { Command } from "commander";
import type { ThreadId } from "../../core/ids.js";
import { idArgument } from "../arguments.js";
import { answering, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

const ofThread = (id: string): ThreadId => idArgument<ThreadId>(id, "a thread");

export function addThreads(program: Command, open: Open, onFailed: () => void): void {
  const threads = program.command("threads").description("the state of a conversation, now and at each step");
  answering(threads, "history <thread>", "list the checkpoints of a thread, newest first")
    .option("--limit <number>", "how many", "20")
    .action(async (thread: string, flags: Flags) => {
      const threadId = ofThread(thread);
      const limit = whole(flags.limit, "--limit", ROWS) ?? 20;
      const { threadsHistory } = await import("../threads.js");
      await open.engine(place(flags), (engine, print) => threadsHistory(engine, threadId, { limit }, print));
    });
  answering(threads, "state <thread>", "show the state of a thread")
    .option("--checkpoint <id>", "as it was at this checkpoint")
    .action(async (thread: string, flags: Flags) => {
      const threadId = ofThread(thread);
      const checkpoint = text(flags.checkpoint);
      const checkpointId = checkpoint === null ? null : idArgument<string>(checkpoint, "a checkpoint");
      const { threadsState } = await import("../threads.js");
      await open.engine(place(flags), (engine, print) => threadsState(engine, threadId, { checkpointId }, print));
    });
  addAdopt(threads, open, onFailed);
}

function addAdopt(threads: Command, open: Open, onFailed: () => void): void {
  const each = (id: string, ids: readonly string[] | undefined): readonly string[] => [...(ids ?? []), id];
  answering(threads, "adopt", "bring over the threads of LangGraph's PostgresSaver")
    .option("--from <source>", "a schema, or a URL like postgres://host/name#schema (default: PERDURE_ADOPT_FROM)")
    .option("--graph <id>", "which graph they are of (default: the only one)")
    .option("--thread <id>", "only this one, by its id there; may be repeated", each)
    .option("--dry-run", "look at everything and write nothing")
    .action(async ({ thread, ...flags }: Flags & { thread: readonly string[] | undefined }) => {
      const adopt = { graphId: text(flags.graph), threadIds: thread ?? null, dryRun: flags.dryRun === true };
      const { threadsAdopt } = await import("../adopt.js");
      const complete = await open.source(place(flags), text(flags.from), (engine, source, print) =>
        threadsAdopt(engine, source, adopt, print),
      );
      if (!complete) onFailed();
    });
}
