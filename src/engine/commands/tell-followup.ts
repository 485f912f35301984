// Says what a follow-up has come to: a run in the order of the conversation's thread appends it as the agent's message, and it goes out
// as that run is settled: after the reply of a turn that is going on. While a question is open the thread can't take it, which may be
// for weeks: then it goes out at once, and the run waits for the answer.
import { pendingApprovals } from "../../approvals/approvals.js";
import type { GetAssistant } from "../../assistants/cached.js";
import { type AssistantRow, getAssistant } from "../../assistants/queries.js";
import type { Outgoing } from "../../core/channel.js";
import type { Deps, Sql } from "../../core/deps.js";
import { unlessGone } from "../../core/errors.js";
import type { FollowupId, RunId, ThreadId } from "../../core/ids.js";
import { isInOrder } from "../../core/run.js";
import { type Posted, postDeliveries } from "../../delivery/outbox.js";
import { getRun, lockUnfinishedRuns } from "../../runs/runs.js";
import { type LockedThread, lockThreadIfFree } from "../../runs/thread-lock.js";
import { type FollowupRow, getFollowup, lockFollowup, updateFollowup } from "../../schedule/followups.js";
import { claimDueTimer, finishTimer, type TimerRow } from "../../schedule/timers.js";
import { derivedId, EMPTY_REQUEST, priorityOfFollowup } from "../followup-runs.js";
import type { OutreachLimits } from "../../core/outreach-limits.js";
import type { RunRequest } from "./request.js";
import { cancelRun } from "./cancel-run.js";
import { tellFailure } from "./tell-failure.js";
import type { EndTeller } from "./tell-run-end.js";
import { insertAccepted } from "./create-run.js";

/** In the caller's transaction, which has locked the thread. */
export async function tellFollowup(
  { deps, postOf }: Pick<TellEngine, "deps" | "postOf">,
  sql: Sql,
  told: Readonly<{ followup: FollowupRow; thread: LockedThread; assistant: AssistantRow; text: string }>,
): Promise<void> {
  const { followup, thread, assistant, text } = told;
  const { tenantId, followupId, conversationId, originRunId } = followup;
  const ahead = (await lockUnfinishedRuns(sql, thread)).filter(isInOrder);
  const waits = ahead.length === 0 && (await pendingApprovals(sql, thread)).length > 0;
  const runId = derivedId<RunId>(followupId, "tell");
  // Without a chat it goes where the run that promised it was to tell of its end.
  const origin =
    conversationId === null && originRunId !== null ? await getRun(sql, { tenantId, runId: originRunId }) : undefined;
  await insertAccepted(deps, sql, {
    input: {
      ...{ tenantId, assistant, conversationId, metadata: { followup_id: followupId } },
      ...({ multitaskStrategy: "enqueue", afterSeconds: null, priority: priorityOfFollowup(followup) } as const),
      followup: { followupId, part: "tell" },
      webhook: origin?.webhook ?? null,
    },
    thread,
    runId,
    request: tellRequest(followupId, text),
    threadFree: ahead.length === 0,
    afterAnswer: waits,
  });
  // It goes out at once.
  if (waits) await postDeliveries(sql, tenantId, await postOf(sql, followup, { text }));
  await updateFollowup(sql, followup, { status: waits ? "produced" : "running", tellRunId: runId });
}

/** Appends what is told to the conversation. */
export function tellRequest(followupId: FollowupId, text: string): RunRequest {
  const message = { type: "ai", id: `fu:${followupId}:answer`, content: text };
  return { ...EMPTY_REQUEST, append: { messages: [message] } };
}

/** The work of a follow-up is done: reads what it came to, and tells it. Returns whether it fired. */
export async function fireTell(engine: TellEngine, timer: TimerRow): Promise<boolean> {
  const { deps } = engine;
  const key = { tenantId: timer.tenantId, followupId: timer.refId as FollowupId };
  const found = await getFollowup(deps.db, key);
  const assistant = found && (await getAssistant(deps.db, { ...key, idOrGraphId: found.assistantId }));
  if (found?.status === "cancelled") return stopWork(deps, found, timer);
  if (found?.status === "dead" || found?.status === "expired") return tellFailure(engine, found, timer);
  const outgoing = found && (await engine.answerOf(found));
  const told = await deps.db.tx(async (sql) => {
    const thread = found && (await lockThreadIfFree(sql, found));
    if (thread === "held") return false;
    if (!(await claimDueTimer(sql, timer))) return false;
    await finishTimer(sql, timer);
    const followup = thread && (await lockFollowup(sql, key));
    // Cancelled meanwhile, or told already.
    if (thread === undefined || followup?.status !== "running" || followup.tellRunId !== null) return false;
    if (outgoing === undefined || assistant === undefined) {
      await updateFollowup(sql, key, { status: "produced", reason: "it had nothing to say" });
      return false;
    }
    await tellFollowup(engine, sql, { followup, thread, assistant, text: outgoing.text });
    return true;
  });
  if (told) for (const topic of ["runs", "deliveries"] as const) deps.notifier.notify(topic);
  return told;
}

/** What telling needs of the engine. */
export type TellEngine = EndTeller &
  Readonly<{
    /** What the work of a follow-up came to; undefined: it said nothing. */
    answerOf(followup: FollowupRow): Promise<Outgoing | undefined>;
    postOf(sql: Sql, followup: FollowupRow, outgoing: Outgoing): Promise<readonly Posted[]>;
    /** What the person is told when nothing comes of it, if anything. */
    sorryOf(sql: Sql, followup: FollowupRow): Promise<readonly Posted[]>;
    outreach: OutreachLimits;
    assistant: GetAssistant;
  }>;

/** Its run has begun, and isn't wanted any more. */
async function stopWork(deps: Deps, followup: FollowupRow, timer: TimerRow): Promise<boolean> {
  const { tenantId, followupId, threadId: root, runId, tellRunId } = followup;
  const threadId = derivedId<ThreadId>(followupId, "thread");
  const runs = [
    ...(runId === null ? [] : [{ threadId, runId }]),
    ...(tellRunId === null ? [] : [{ threadId: root, runId: tellRunId }]),
  ];
  for (const run of runs) {
    const cancel = { tenantId, ...run, reason: "its follow-up was cancelled", moveAfterMs: 0 };
    await unlessGone(cancelRun(deps, cancel));
  }
  await finishTimer(deps.db, timer);
  return true;
}
