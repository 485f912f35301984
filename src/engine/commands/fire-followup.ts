// A follow-up is due: the text that was written then is told, or the graph is run for it on a thread of its own, with what was said
// until then. Each is a run with an id that follows from the follow-up's, so that whoever fires it twice makes one.
import type { AssistantRow } from "../../assistants/queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { FollowupId, RunId, ThreadId } from "../../core/ids.js";
import { endQuietHours } from "../../delivery/outbox.js";
import { getRun, hasWrittenSince } from "../../runs/runs.js";
import { ensureThread, lockThreadIfFree, type ThreadKey } from "../../runs/thread-lock.js";
import { type FollowupRow, getFollowup, lockFollowup, updateFollowup } from "../../schedule/followups.js";
import { claimDueTimer, finishTimer, postponeTimer, type TimerRow } from "../../schedule/timers.js";
import { insertAccepted } from "./create-run.js";
import { judgeOutreach } from "./judge-outreach.js";
import { contentOf, derivedId, EMPTY_REQUEST, priorityOfFollowup } from "../followup-runs.js";
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
    if (!(await claimDueTimer(sql, timer))) return false;
    const followup = thread && (await lockFollowup(sql, key));
    if (thread === undefined || followup?.status !== "pending") {
      await finishTimer(sql, timer);
      return followup !== undefined && (await goesNow(sql, followup));
    }
    const over = (await overBefore(sql, followup)) ?? (await judgeOutreach(sql, followup, engine.outreach));
    if (over === "held" || over === "full") return over === "full" ? over : false;
    if (over === "later" || (over !== null && "until" in over)) {
      await postponeTimer(sql, { ...timer, afterMs: over === "later" ? TURN_MS : over.afterMs });
      if (over !== "later") await updateFollowup(sql, key, { fireAt: over.until, reason: over.reason });
      return false;
    }
    await finishTimer(sql, timer);
    if (over !== null) {
      await updateFollowup(sql, key, over);
      return false;
    }
    if (assistant === undefined) {
      await updateFollowup(sql, key, { status: "dead", reason: "its assistant is gone" });
      return false;
    }
    if (followup.mode === "remind") {
      await tellFollowup(engine, sql, { followup, thread, assistant, text: contentOf(followup).instruction });
    } else {
      await startWork(deps, sql, followup, assistant);
    }
    return true;
  });
  if (fired === true) for (const topic of ["runs", "deliveries"] as const) deps.notifier.notify(topic);
  return fired;
}

/** It was told, at an hour at which nobody is written to: that is over. */
async function goesNow(sql: Sql, { tenantId, followupId: sourceId, scheduleId, conversationId }: FollowupRow) {
  if (scheduleId === null || conversationId === null) return false;
  await endQuietHours(sql, { tenantId, conversationId, sourceId });
  return true;
}

type Over = Readonly<{ status: "expired" | "cancelled"; reason: string }>;

/** Whether it isn't wanted any more, or has to wait: for the turn in which it was promised. */
async function overBefore(sql: Sql, followup: FollowupRow): Promise<Over | "later" | null> {
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
async function startWork(deps: Deps, sql: Sql, followup: FollowupRow, assistant: AssistantRow): Promise<void> {
  const { tenantId, followupId, conversationId } = followup;
  const place: ThreadKey = { tenantId, threadId: derivedId<ThreadId>(followupId, "thread") };
  const thread = await ensureThread(sql, { ...place, ephemeral: false });
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
  const { about, instruction } = contentOf(followup);
  const text = `Follow-up that is due now (${about}): ${instruction}`;
  const message = {
    ...{ type: "human", id: `fu:${followup.followupId}`, content: text },
    additional_kwargs: { followup: true },
  };
  return { ...EMPTY_REQUEST, input: { messages: [message] }, begins_from: followup.threadId };
}
