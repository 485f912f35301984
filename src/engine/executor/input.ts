// What an attempt hands to the graph. The request counts only until the run has a checkpoint of its own: giving an input
// or a Command again re-enters finished nodes or applies it twice (measured).
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { Command, Send } from "@langchain/langgraph";
import type { Lease } from "../../core/clock.js";
import type { Sql } from "../../core/deps.js";
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import { openInterrupts, pendingNodes } from "../../checkpoint/pending.js";
import type { Saver } from "../../checkpoint/saver.js";
import { type CheckpointRef, resumeMapOf, type RunCommand, type RunRequest } from "../commands/request.js";
import { databaseNow } from "../database-now.js";
import { sleepOf } from "../sleep.js";

export type AttemptInput = Readonly<{
  input: unknown;
  /** It begins something, instead of going on with what the thread was at. */
  begins: boolean;
  /** Only for an attempt that starts from the request. */
  checkpoint: CheckpointRef | null;
  /** Before it, what the head has left to do is done with. */
  endsTasks: boolean;
  /** Sleeps that go on: until when, by interrupt id. */
  sleeps: Readonly<Record<string, string>>;
  /** Nodes that it goes on in. */
  pending: readonly string[];
}>;

/** What was asked for is done already. */
export const NOTHING_TO_DO: AttemptInput = {
  input: null,
  begins: false,
  checkpoint: null,
  endsTasks: false,
  sleeps: {},
  pending: [],
};

/** Decides from what is stored, so that any number of crashes leads to the same decision. */
export async function attemptInput(
  sql: Sql,
  saver: Saver,
  lease: Lease,
  request: RunRequest,
  begun: boolean,
): Promise<AttemptInput> {
  const { input, command, checkpoint } = request;
  if (command?.ends_tasks === true) return afterEndedTasks(saver, lease, command);
  const answers = resumeMapOf(command?.resume);
  const continues = answers !== undefined || (command === null && input === null && checkpoint === null);
  const starts = !begun || (!continues && (await newestCheckpointOfRun(sql, lease)) === undefined);
  if (starts && !continues) {
    return {
      input: command === null ? input : toCommand(command),
      begins: command === null,
      checkpoint,
      endsTasks: false,
      sleeps: {},
      pending: [],
    };
  }
  const { resume, sleeps, pending } = await openAnswers(sql, saver, lease, answers ?? {});
  if (starts && command !== null) {
    // An answer that is gone is refused by LangGraph's strict resume: the state moved on under it.
    const all = toCommand({ ...command, resume: { ...answers, ...resume } });
    return { input: all, begins: false, checkpoint, endsTasks: false, sleeps, pending };
  }
  const answer = Object.keys(resume).length === 0 ? null : new Command({ resume });
  return { input: answer, begins: false, checkpoint: null, endsTasks: false, sleeps, pending };
}

/** Its first checkpoint is that of the end of the tasks; one after it says that the command was taken. */
async function afterEndedTasks(
  saver: Saver,
  lease: Lease,
  { ends_tasks: _done, ...command }: RunCommand,
): Promise<AttemptInput> {
  const head = await saver.getTuple({ configurable: { thread_id: lease.threadId, checkpoint_ns: "" } });
  const metadata = head?.metadata as Readonly<{ run_id?: unknown; source?: unknown }> | undefined;
  const ended = metadata?.run_id === lease.runId;
  const left = Object.keys(command).length > 0 && (!ended || metadata.source === "update") ? toCommand(command) : null;
  return {
    input: left,
    begins: left !== null,
    checkpoint: null,
    endsTasks: !ended && head !== undefined,
    sleeps: {},
    pending: [],
  };
}

type OpenAnswers = Readonly<{
  resume: Record<string, unknown>;
  sleeps: Record<string, string>;
  pending: readonly string[];
}>;

/** The answers whose questions are still open with those sleeps whose time has come, and the sleeps that go on. */
async function openAnswers(
  sql: Sql,
  saver: Saver,
  lease: Lease,
  answers: Readonly<Record<string, unknown>>,
): Promise<OpenAnswers> {
  const head: CheckpointTuple | undefined = await saver.peek({
    configurable: { thread_id: lease.threadId, checkpoint_ns: "" },
  });
  const resume: Record<string, unknown> = {};
  const sleeps: Record<string, string> = {};
  let now: Date | undefined;
  for (const { taskId, id, value } of openInterrupts(head)) {
    const until = sleepOf(value);
    if (until === undefined) {
      if (id in answers) resume[id] = answers[id];
    } else if (until > (now ??= await databaseNow(sql))) {
      sleeps[id] = until.toISOString();
    } else if (!hasTaken(head, taskId, id)) {
      // Its own id is its answer, so that a task which took it and failed later is not given it twice.
      resume[id] = id;
    }
  }
  return { resume, sleeps, pending: pendingNodes(head) };
}

function hasTaken(head: CheckpointTuple | undefined, taskId: string, answer: string): boolean {
  const taken = (head?.pendingWrites ?? []).filter(([task, channel]) => task === taskId && channel === "__resume__");
  return taken.some(([, , values]) => Array.isArray(values) && values.includes(answer));
}

/** The wire's command as LangGraph's. */
export function toCommand(command: RunCommand): Command {
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
