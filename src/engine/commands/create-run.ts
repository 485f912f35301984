// Accepts a run: thread, run, answered questions and event in one transaction, the wake-up after it.
import { reaches, type RunAccess } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, ConversationId, FollowupId, RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { ThreadTtl } from "../../core/thread-ttl.js";
import { isInOrder, type MultitaskStrategy, type Priority, supersedes } from "../../core/run.js";
import { pendingApprovals } from "../../approvals/approvals.js";
import type { Caller } from "../../core/approval.js";
import { appendEvent } from "../../runs/events.js";
import { pinOfNext } from "../../runs/pins.js";
import { insertRun } from "../../runs/new-runs.js";
import { belongingsOfRuns, lockUnfinishedRuns, type RunRow } from "../../runs/runs.js";
import { lockThread, updateThreadStatus, type LockedThread } from "../../runs/thread-lock.js";
import { ensureThread, patchThreadRow } from "../../runs/threads.js";
import { setTimer } from "../../schedule/timers.js";
import { lackedNodes, refuseMisfit } from "../fit.js";
import { type Answers, countVote, refuseStrangers } from "./answer.js";
import { endRuns } from "./end-runs.js";
import { goneRuns, rollBackRuns } from "./roll-back-runs.js";
import { decisionWord, encodeRequest, type RunRequest } from "./request.js";
import { decideQuestions, withdrawQuestions } from "./questions.js";
import { goesOn, mergeRequest, metadataOf, priorityOf } from "./layers.js";
import { joinWaitingRun, mergeWindowOf } from "./merge-messages.js";
import { resolveResume } from "./resolve-resume.js";

export type CreateRunInput = Readonly<{
  tenantId: TenantId;
  /** Null: a stateless run, on a thread of its own that nobody sees. */
  threadId: ThreadId | null;
  assistant: Readonly<{
    assistantId: AssistantId;
    graphId: string;
    version?: number;
    config: Readonly<Record<string, unknown>>;
    context: unknown;
    metadata: Readonly<Record<string, unknown>>;
  }>;
  request: RunRequest;
  metadata: Readonly<Record<string, unknown>>;
  multitaskStrategy: MultitaskStrategy;
  ifNotExists: "reject" | "create";
  onCompletion: "delete" | "keep";
  afterSeconds: number | null;
  /** Null: by what the run does. */
  priority: Priority | null;
  /** Where what it says goes; null: an answer goes where the question was asked, anything else to whoever looks. */
  conversationId: ConversationId | null;
  /** For how long a message's run waits for more of them; 0: it doesn't. */
  mergeWindowMs: number;
  caller: Caller;
  /** The graph's nodes, where an answer may find its own gone; null: that is not looked at. */
  graph: Readonly<{ nodes: object; version: string }> | null;
  /** Who asks, for the record of decisions, where the caller isn't known. */
  createdBy: string;
  /** A URL that is told when it is over. */
  webhook?: string | null;
  /** Of its states only the last one stays once it is over. */
  keepsLast?: boolean;
  /** Fails when the assistant has another version than it was read with. */
  ifVersionCounts?: boolean;
  /** How long its thread is kept: what the request says, and else what is said of threads that are made; null: for ever. */
  threadTtl?: ThreadTtl | null;
  newThreadTtl?: ThreadTtl | null;
  /** Left out: it may be made on any thread. */
  access?: RunAccess;
}>;

export type AcceptedInput = Pick<
  CreateRunInput,
  | "tenantId"
  | "assistant"
  | "metadata"
  | "multitaskStrategy"
  | "afterSeconds"
  | "priority"
  | "conversationId"
  | "webhook"
  | "keepsLast"
  | "ifVersionCounts"
> &
  Readonly<{
    /** Of which follow-up it is. */
    followup?: Readonly<{ followupId: FollowupId; part: "work" | "tell" }> | null;
  }>;

/**
 * Creates a run and returns it once it is durable.
 * Throws `not_found` (no such thread), `thread_busy` (strategy reject), `not_pending` (a resume that answers nothing),
 * `assistant_changed` (with `ifVersionCounts`), `graph_changed` (the node that asks is gone), `forbidden` (not for this caller), `more_votes_needed` (the answer is counted), `conflict` (a question that is to be answered first).
 */
export async function createRun(deps: Deps, input: CreateRunInput): Promise<RunRow> {
  const runId = deps.ids.next<RunId>();
  const created = await deps.db.tx((sql) => createRunIn(deps, sql, input, runId));
  if ("waiting" in created) throw created.waiting;
  afterCreation(deps, created);
  return created.run;
}

export type CreatedRun = Readonly<{ run: RunRow; cancelled: readonly RunId[] }>;

/** `createRun` in the caller's transaction; `waiting` is to be thrown after it. What `afterCreation` says is told then. */
export async function createRunIn(
  deps: Deps,
  sql: Sql,
  input: CreateRunInput,
  runId: RunId,
): Promise<CreatedRun | Readonly<{ waiting: EngineError }>> {
  const thread = await takeThread(deps, sql, input, runId);
  const joined = await joinWaitingRun(sql, input, thread);
  if (joined !== undefined) return { run: joined, cancelled: [] };
  const answer = await answerOf(sql, input, thread);
  if (answer !== null && "waiting" in answer) return answer;
  const afterAnswer = answer === null && (await inputWaits(sql, input, thread));
  const { cancelled, ahead } = await makeRoom(deps, sql, input, thread);
  const request = await answerOrSupersede(sql, input, { thread, ahead, runId, answer, afterAnswer });
  const threadFree = !ahead.some((run) => run.head);
  const mergeMs = mergeWindowOf(input) || null;
  const belongings = await belongingsOf(sql, input, answer);
  const accepted = { input: { ...input, ...belongings }, thread, runId, request, threadFree, afterAnswer, mergeMs };
  const run = await insertAccepted(deps, sql, accepted);
  return { run, cancelled };
}

/** Wakes whoever waits for what a transaction has made true. */
export function afterCreation(deps: Deps, created: CreatedRun): void {
  goneRuns(deps, created.cancelled);
  deps.notifier.notify(created.run.availableAt === null ? "runs" : "timers");
}

async function takeThread(deps: Deps, sql: Sql, input: CreateRunInput, runId: RunId): Promise<LockedThread> {
  const thread = await findOrMakeThread(deps, sql, input, runId);
  if (input.threadTtl) await patchThreadRow(sql, { ...thread, metadata: {}, ttl: input.threadTtl });
  return thread;
}

async function findOrMakeThread(deps: Deps, sql: Sql, input: CreateRunInput, runId: RunId): Promise<LockedThread> {
  const { tenantId } = input;
  const ttl = input.newThreadTtl ?? null;
  const { within, threadMetadata: metadata } = input.access ?? ANY_THREAD;
  if (input.threadId === null) {
    return ensureThread(sql, {
      tenantId,
      threadId: deps.ids.next<ThreadId>(),
      ephemeral: input.onCompletion === "delete",
      ttl: input.onCompletion === "delete" ? null : ttl,
      metadata,
    });
  }
  const key = { tenantId, threadId: input.threadId };
  const thread =
    input.ifNotExists === "create" ? await ensureThread(sql, { ...key, metadata, ttl }) : await lockThread(sql, key);
  const isTheirs = thread !== undefined && (("isNew" in thread && thread.isNew) || reaches(within, thread.metadata));
  if (!isTheirs || thread.ephemeral) {
    throw new EngineError("not_found", `Thread with ID ${input.threadId} not found`, { details: { run_id: runId } });
  }
  return thread;
}

export const ANY_THREAD: RunAccess = { within: null, threadMetadata: {} };

type Room = Readonly<{ cancelled: readonly RunId[]; ahead: readonly RunRow[] }>;

/** Applies the multitask strategy: which runs it ended, and which unfinished ones come before the new run. */
async function makeRoom(deps: Deps, sql: Sql, input: CreateRunInput, thread: LockedThread): Promise<Room> {
  const unfinished = await lockUnfinishedRuns(sql, thread);
  if (unfinished.length === 0) return { cancelled: [], ahead: [] };
  const edits = unfinished.filter((run) => run.kind === "edit");
  const runIds = unfinished.filter((run) => run.kind === "run").map((run) => run.runId);
  switch (input.multitaskStrategy) {
    case "enqueue":
      return { cancelled: [], ahead: unfinished };
    case "reject":
      throw new EngineError(
        "thread_busy",
        "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
      );
    case "interrupt":
      return {
        cancelled: await endRuns(sql, { ...thread, runIds, reason: "superseded by a newer run" }),
        ahead: edits,
      };
    case "rollback": {
      const { tenantId, threadId } = thread;
      await rollBackRuns(deps, sql, { tenantId, threadId, runIds, reason: "rolled back by a newer run" });
      return { cancelled: runIds, ahead: edits };
    }
  }
}

type Answer = Readonly<{ answers: Answers; decidedBy: string; askedBy: readonly RunId[] }>;

/** What a resume answers, or why that is not enough yet; null when the request answers nothing. */
async function answerOf(
  sql: Sql,
  input: CreateRunInput,
  thread: LockedThread,
): Promise<Answer | Readonly<{ waiting: EngineError }> | null> {
  const resume = input.request.command?.resume ?? null;
  if (resume === null) return null;
  const asking = thread.metadata.graph_id;
  if (asking !== undefined && asking !== input.assistant.graphId) {
    throw new EngineError(
      "conflict",
      `Thread ${thread.threadId} is of graph "${String(asking)}"; graph "${input.assistant.graphId}" can't take an answer to it`,
    );
  }
  const { answers, asked } = await resolveResume(sql, {
    ...{ ...thread, resume, checkpoint: input.request.checkpoint },
    isEngine: input.caller.isEngine === true,
  });
  refuseStrangers(asked, input.caller);
  if (input.graph !== null) {
    const nodes = asked.flatMap(({ node }) => node ?? []);
    await refuseMisfitHere(sql, input, input.graph, thread, nodes);
  }
  const vote = await countVote(sql, asked, answers, input.caller);
  if (vote !== undefined && "waiting" in vote) return vote;
  const askedBy = asked.map(({ runId }) => runId);
  return { answers, decidedBy: vote?.decidedBy ?? input.caller.person ?? input.createdBy, askedBy };
}

/** What follows from an answer is said where the question was asked, wherever it was answered; and is of the same follow-up. */
async function belongingsOf(
  sql: Sql,
  input: CreateRunInput,
  answer: Answer | null,
): Promise<Pick<AcceptedInput, "conversationId" | "followup">> {
  const { tenantId, conversationId } = input;
  if (answer === null) return { conversationId };
  const of = await belongingsOfRuns(sql, { tenantId, runIds: answer.askedBy });
  const followup = followupOf(of);
  return { conversationId: conversationId ?? of.conversationId, followup };
}

/** Of which follow-up a run is that goes on for another. */
export function followupOf({ followupId, followupPart: part }: Pick<RunRow, "followupId" | "followupPart">) {
  return followupId === null || part === null ? null : { followupId, part };
}

/** Throws `graph_changed` when this code lacks a node and may have to go on; of a run that is pinned to other code it can't know. */
async function refuseMisfitHere(
  sql: Sql,
  { assistant }: CreateRunInput,
  graph: NonNullable<CreateRunInput["graph"]>,
  thread: LockedThread,
  nodes: readonly string[],
): Promise<void> {
  if (lackedNodes(graph, nodes).length === 0) return;
  const pin = await pinOfNext(sql, { ...thread, ...assistant, goesOn: true });
  if (pin === "" || pin === graph.version) {
    refuseMisfit(graph, nodes, { ...assistant, ...thread, version: graph.version });
  }
}

/** Whether a new input has to wait for the answer to an open question. Throws `conflict` where such inputs are refused. */
async function inputWaits(sql: Sql, { request }: CreateRunInput, thread: LockedThread): Promise<boolean> {
  if (request.input === null || request.command !== null) return false;
  const open = await pendingApprovals(sql, thread);
  const refusing = open.filter(({ policy }) => policy.onMessage === "refuse").map(({ interruptId }) => interruptId);
  if (refusing.length > 0) {
    throw new EngineError(
      "conflict",
      `Thread ${thread.threadId} waits for an answer to interrupt ${refusing.join(", ")}`,
      {
        details: { pending: refusing },
      },
    );
  }
  return open.some(({ policy }) => policy.onMessage === "queue");
}

/** A resume claims the questions it answers; anything else supersedes the open ones, unless it waits for them. */
async function answerOrSupersede(
  sql: Sql,
  input: CreateRunInput,
  place: Readonly<{
    thread: LockedThread;
    ahead: readonly RunRow[];
    runId: RunId;
    answer: Answer | null;
    afterAnswer: boolean;
  }>,
): Promise<RunRequest> {
  const { request } = input;
  const { thread, runId, answer } = place;
  if (answer === null) {
    if (!place.afterAnswer) await withdrawQuestions(sql, { ...thread, reason: "superseded by a new run" });
    return request;
  }
  refuseOvertaken(thread, place.ahead);
  const interruptIds = Object.keys(answer.answers);
  await decideQuestions(sql, {
    ...thread,
    interruptIds,
    decidedBy: answer.decidedBy,
    decidedRunId: runId,
    decisions: interruptIds.map((id) => decisionWord(answer.answers[id])),
  });
  // The answer belongs to the head that asks: a checkpoint named with it has done its duty.
  return { ...request, command: { ...request.command, resume: answer.answers }, checkpoint: null };
}

/** An input or edit that was accepted before the question was asked takes the thread elsewhere: an answer would come too late. */
function refuseOvertaken(thread: LockedThread, ahead: readonly RunRow[]): void {
  const other = ahead.find((run) => isInOrder(run) && supersedes(run));
  if (other === undefined) return;
  throw new EngineError(
    "not_pending",
    `Thread ${thread.threadId} goes on with ${other.kind} ${other.runId} first: what was asked before is not answered any more`,
    { details: { run_id: other.runId } },
  );
}

/** Writes an accepted run on its locked thread. */
export async function insertAccepted(
  deps: Deps,
  sql: Sql,
  parts: Readonly<{
    input: AcceptedInput;
    thread: LockedThread;
    runId: RunId;
    request: RunRequest;
    threadFree: boolean;
    afterAnswer?: boolean;
    mergeMs?: number | null;
  }>,
): Promise<RunRow> {
  const { input, thread, runId, afterAnswer = false, mergeMs = null } = parts;
  const delayed = input.afterSeconds !== null && input.afterSeconds > 0;
  const run = await insertRun(sql, {
    tenantId: input.tenantId,
    runId,
    threadId: thread.threadId,
    assistantId: input.assistant.assistantId,
    graphId: input.assistant.graphId,
    priority: priorityOf({ ...parts, priority: input.priority }),
    resumes: goesOn(parts.request),
    // A delayed run does not hold the thread: it joins the order when its time has come.
    head: parts.threadFree && !delayed && !afterAnswer,
    multitaskStrategy: input.multitaskStrategy,
    metadata: metadataOf(input, thread),
    request: encodeRequest(mergeRequest(parts.request, input, thread)),
    delayMs: delayed ? (input.afterSeconds ?? 0) * 1_000 : null,
    mergeMs,
    afterAnswer: afterAnswer && !delayed,
    conversationId: input.conversationId,
    followupId: input.followup?.followupId ?? null,
    followupPart: input.followup?.part ?? null,
    webhook: input.webhook ?? null,
    keepsLast: input.keepsLast ?? false,
    assistantVersion: input.assistant.version ?? null,
    ifVersionCounts: input.ifVersionCounts ?? false,
  });
  if (run === undefined) throw assistantChanged(input.assistant.assistantId);
  if (run.availableAt !== null) {
    await setTimer(sql, {
      tenantId: input.tenantId,
      timerId: deps.ids.next(),
      kind: "run.release",
      refId: runId,
      when: { at: run.availableAt },
    });
  }
  await updateThreadStatus(sql, {
    ...thread,
    status: afterAnswer && !delayed && parts.threadFree ? "interrupted" : "busy",
    metadata: { graph_id: input.assistant.graphId, assistant_id: input.assistant.assistantId },
  });
  await appendEvent(sql, run, { type: "run.created", attempt: 0, payload: { graph_id: run.graphId } });
  return run;
}

function assistantChanged(assistantId: AssistantId): EngineError {
  return new EngineError("assistant_changed", `Assistant ${assistantId} has changed meanwhile; try again`);
}
