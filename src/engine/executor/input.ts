// What an attempt hands to the graph. The request counts only until the run has a checkpoint of its own: giving an input
// or a Command again re-enters finished nodes or applies it twice (measured).
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { Command, Send } from "@langchain/langgraph";
import type { Lease } from "../../core/clock.js";
import type { Sql } from "../../core/deps.js";
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import { openInterrupts } from "../../checkpoint/pending.js";
import type { CheckpointRef, RunCommand, RunRequest } from "../commands/request.js";
import { resumeMapOf } from "../commands/request.js";
import { sleepOf } from "../sleep.js";

export type AttemptInput = Readonly<{
  input: unknown;
  /** Only for an attempt that starts from the request. */
  checkpoint: CheckpointRef | null;
}>;

/** Decides from what is stored, so that any number of crashes leads to the same decision. */
export async function attemptInput(
  sql: Sql,
  saver: BaseCheckpointSaver<string>,
  lease: Lease,
  request: RunRequest,
  begun: boolean,
): Promise<AttemptInput> {
  const answers = resumeMapOf(request.command?.resume);
  if (!begun) {
    const input =
      request.command === null ? request.input : await firstCommand(sql, saver, lease, request.command, answers);
    return { input, checkpoint: request.checkpoint };
  }
  if (answers === undefined && (await newestCheckpointOfRun(sql, lease)) === undefined) {
    return {
      input: request.command === null ? request.input : toCommand(request.command),
      checkpoint: request.checkpoint,
    };
  }
  const resume = await openAnswers(sql, saver, lease, answers ?? {});
  return { input: Object.keys(resume).length === 0 ? null : new Command({ resume }), checkpoint: null };
}

async function firstCommand(
  sql: Sql,
  saver: BaseCheckpointSaver<string>,
  lease: Lease,
  command: RunCommand,
  answers: Readonly<Record<string, unknown>> | undefined,
): Promise<Command> {
  if (answers === undefined) return toCommand(command);
  const resume = await openAnswers(sql, saver, lease, answers);
  // An answer that is gone is refused by LangGraph's strict resume: the state moved on under it.
  return toCommand({ ...command, resume: { ...answers, ...resume } });
}

/** The answers whose questions are still open, and those sleeps whose time has come. */
async function openAnswers(
  sql: Sql,
  saver: BaseCheckpointSaver<string>,
  lease: Lease,
  answers: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const head: CheckpointTuple | undefined = await saver.getTuple({
    configurable: { thread_id: lease.threadId, checkpoint_ns: "" },
  });
  const open = openInterrupts(head);
  const sleeps = open.flatMap(({ id, value }) => {
    const until = sleepOf(value);
    return until === undefined ? [] : [{ id, until }];
  });
  const resume: Record<string, unknown> = {};
  for (const { id } of open) if (id in answers) resume[id] = answers[id];
  if (sleeps.length > 0) {
    const now = await databaseNow(sql);
    for (const { id, until } of sleeps) if (until <= now) resume[id] = until.toISOString();
  }
  return resume;
}

async function databaseNow(sql: Sql): Promise<Date> {
  const { rows } = await sql.query<{ now: Date }>("select clock_timestamp() as now");
  return rows[0]?.now ?? new Date(0);
}

/** The wire's command as LangGraph's. */
function toCommand(command: RunCommand): Command {
  const { resume, update, goto } = command;
  return new Command({
    ...(resume === undefined || resume === null ? {} : { resume }),
    ...(update === undefined || update === null
      ? {}
      : { update: update as Record<string, unknown> | [string, unknown][] }),
    ...(goto === undefined || goto === null ? {} : { goto: (Array.isArray(goto) ? goto : [goto]).map(target) }),
  });
}

function target(goto: unknown): string | Send {
  if (typeof goto === "string") return goto;
  const { node, input } = goto as { node: string; input: unknown };
  return new Send(node, input as Record<string, unknown>);
}
