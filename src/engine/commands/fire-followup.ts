// A follow-up is due: the text that was written then is told, or the graph is run for it on a thread of its own, with what was said
// until then. Each is a run with an id that follows from the follow-up's, so that whoever fires it twice makes one.
import type { AssistantRow } from "../../assistants/queries.js";
import { configuredAs } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { FollowupId, RunId, ThreadId } from "../../core/ids.js";
import { getConversation, lockReachability } from "../../delivery/conversations.js";
import { endQuietHours } from "../../delivery/outbox.js";
import { getRun, hasWrittenSince } from "../../runs/runs.js";
import { type LockedThread, lockThreadIfFree, type ThreadKey } from "../../runs/thread-lock.js";
import { ensureThread } from "../../runs/threads.js";
import { type FollowupRow, getFollowup, lockFollowup, updateFollowup } from "../../schedule/followups.js";
import { claimDueTimer, finishTimer, postponeTimer, type TimerRow } from "../../schedule/timers.js";
import { insertAccepted } from "./create-run.js";
import { type Judged, judgeOutreach } from "./judge-outreach.js";
import { parkFollowup } from "./park-followup.js";
import { contentOf, derivedId, EMPTY_REQUEST, priorityOfFollowup, workThreadMetadata } from "../followup-runs.js";
import type { RunRequest } from "./request.js";
import { type TellEngine, tellFollowup } from "./tell-followup.js";

/** Until the turn that scheduled it is over. */
const TURN_MS = 1_000;

/** Turns a due timer into its run. Returns whether it fired; "full": there is no room now for another one of its kind. */
export async function fireFollowup(engine: TellEngine, timer: TimerRow): Promise<boolean | "full"> {
  const { deps } = engine;
  const key = { tenantId: timer.tenantId, followupId: timer.refId as FollowupId };
  const found = await getFollowup(deps.db, key);
  const assistant = found && (await engine.assistant({ ...key, idOrGraphId: found.assistantId }));
  const fired = await deps.db.tx(async (sql) => {
    const thread = found && (await lockThreadIfFree(sql, found));
    if (thread === "held") return false;
    const unreachable = found === undefined ? null : await lockUnreachable(sql, found);
    if (!(await claimDueTimer(sql, timer))) return false;
    const followup = thread && (await lockFollowup(sql, key));
    if (thread === undefined || followup === undefined || !isWaiting(followup)) {
      await finishTimer(sql, timer);
      return followup !== undefined && (await goesNow(sql, followup));
    }
    const verdict =
      (await overBefore(sql, followup)) ??
      (unreachable === null ? null : notThere(followup, unreachable)) ??
      (await judgeOutreach(sql, followup, engine.outreach));
    if (verdict !== null) return heed(deps, sql, { timer, followup, verdict });
    await finishTimer(sql, timer);
    if (assistant === undefined) {
      await updateFollowup(sql, key, { status: "dead", reason: "its assistant is gone" });
      return false;
    }
    if (followup.mode === "remind") {
      await tellFollowup(engine, sql, { followup, thread, assistant, text: contentOf(followup).instruction });
    } else {
      await startWork(deps, sql, { followup, thread, assistant });
    }
    return true;
  });
  if (fired === true) for (const topic of ["runs", "deliveries"] as const) deps.notifier.notify(topic);
  return fired;
}

const isWaiting = ({ status }: FollowupRow): boolean => status === "pending" || status === "parked";

/** Why nothing arrives there; then locked until the transaction ends, so that whoever writes meanwhile finds what is parked here. */
async function lockUnreachable(sql: Sql, { tenantId, conversationId }: FollowupRow): Promise<string | null> {
  if (conversationId === null) return null;
  const key = { tenantId, conversationId };
  if ((await getConversation(sql, key))?.unreachableAt === null) return null;
  return lockReachability(sql, key);
}

/** What was promised waits until the person writes, and costs nothing meanwhile; what nobody asked for is left out. */
function notThere({ scheduleId }: FollowupRow, code: string): Verdict {
  return scheduleId === null ? { parked: code } : { status: "skipped", reason: `nothing arrives there: ${code}` };
}

/** Why it doesn't go out now. */
type Verdict = Exclude<Judged, null> | "later" | Readonly<{ parked: string }>;

async function heed(
  deps: Deps,
  sql: Sql,
  { timer, followup, verdict }: Readonly<{ timer: TimerRow; followup: FollowupRow; verdict: Verdict }>,
): Promise<false | "full"> {
  if (verdict === "held") return false;
  if (verdict === "full") return verdict;
  if (verdict === "later") {
    await postponeTimer(sql, { ...timer, afterMs: TURN_MS });
  } else if ("until" in verdict) {
    await postponeTimer(sql, { ...timer, afterMs: verdict.afterMs });
    await updateFollowup(sql, followup, { fireAt: verdict.until, reason: verdict.reason });
  } else if ("parked" in verdict) {
    await parkFollowup(deps, sql, { timer, followup, code: verdict.parked });
  } else {
    await finishTimer(sql, timer);
    await updateFollowup(sql, followup, verdict);
  }
  return false;
}

/** It was told, at an hour at which nobody is written to: that is over. */
async function goesNow(sql: Sql, { tenantId, followupId: sourceId, scheduleId, conversationId }: FollowupRow) {
  if (scheduleId === null || conversationId === null) return false;
  await endQuietHours(sql, { tenantId, conversationId, sourceId });
  return true;
}

/** Whether it isn't wanted any more, or has to wait: for the turn in which it was promised. */
async function overBefore(sql: Sql, followup: FollowupRow): Promise<Verdict | null> {
  const { tenantId, originRunId, notAfter, cancelOnInbound } = followup;
  if (notAfter !== null && (await isOver(sql, notAfter))) return { status: "expired", reason: "it was too late" };
  if (cancelOnInbound && (await hasWrittenSince(sql, { ...followup, since: followup.createdAt }))) {
    return { status: "cancelled", reason: "the person wrote" };
  }
  const origin = originRunId === null ? undefined : await getRun(sql, { tenantId, runId: originRunId });
  return origin?.status === "pending" || origin?.status === "running" ? "later" : null;
}

async function isOver(sql: Sql, at: Date): Promise<boolean> {
  const { rows } = await sql.query<{ over: boolean }>("select $1::timestamptz < clock_timestamp() as over", [at]);
  return rows[0]?.over ?? false;
}

/** The thread is made with it, and takes over what the conversation has come to when the run begins. */
async function startWork(
  deps: Deps,
  sql: Sql,
  {
    followup,
    thread: root,
    assistant,
  }: Readonly<{ followup: FollowupRow; thread: LockedThread; assistant: AssistantRow }>,
): Promise<void> {
  const { tenantId, followupId, conversationId } = followup;
  const place: ThreadKey = { tenantId, threadId: derivedId<ThreadId>(followupId, "thread") };
  const thread = await ensureThread(sql, { ...place, metadata: workThreadMetadata(followup, root) });
  const runId = derivedId<RunId>(followupId, "work");
  await insertAccepted(deps, sql, {
    input: {
      ...{
        tenantId,
        assistant,
        conversationId,
        metadata: { followup_id: followupId, root_thread_id: followup.threadId },
      },
      ...({ multitaskStrategy: "enqueue", afterSeconds: null, priority: priorityOfFollowup(followup) } as const),
      followup: { followupId, part: "work" },
    },
    thread,
    runId,
    request: workRequest(followup),
    threadFree: true,
  });
  await updateFollowup(sql, followup, { status: "running", runId });
}

function workRequest(followup: FollowupRow): RunRequest {
  const { about, instruction, user = null } = contentOf(followup);
  const text = `Follow-up that is due now (${about}): ${instruction}`;
  const message = {
    ...{ type: "human", id: `fu:${followup.followupId}`, content: text },
    additional_kwargs: { followup: true },
  };
  const config = { configurable: configuredAs(user) };
  return { ...EMPTY_REQUEST, config, input: { messages: [message] }, begins_from: followup.threadId };
}
