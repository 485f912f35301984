// A follow-up that somebody schedules over the API: on a thread that has been spoken on, or to a conversation that is known.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { FollowupLimits } from "../../core/followup-limits.js";
import type { ConversationId, FollowupId, TenantId, ThreadId, TimerId } from "../../core/ids.js";
import { getAccount } from "../../delivery/accounts.js";
import { type ConversationRow, getConversation } from "../../delivery/conversations.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { listRuns } from "../../runs/runs.js";
import { getThread } from "../../runs/threads.js";
import { getFollowup } from "../../schedule/followups.js";
import type { Engine } from "../engine.js";
import { findMadeBefore, type Once } from "./make-once.js";
import { type FollowupAsked, type Origin, type Scheduled, scheduleFollowup } from "./schedule-followup.js";

export type MadeFollowup = Pick<Scheduled, "followup" | "warnings"> & Readonly<{ again: boolean }>;

type Asked = FollowupAsked &
  Readonly<{
    tenantId: TenantId;
    threadId: ThreadId;
    /** Where the answer goes; null: where the thread's last turn came from. */
    conversationId: ConversationId | null;
    /** Who does it; null: whoever had the last turn, or answers there. */
    assistantId: string | null;
    limits: FollowupLimits;
    once: Once | null;
  }>;

/**
 * Throws as `scheduleFollowup` does, `not_found` without the thread, `bad_request` for a conversation of another thread or an assistant that
 * isn't there, and `conflict` when nobody says whose it is.
 */
export async function createFollowup(engine: Pick<Engine, "deps" | "assistant">, create: Asked): Promise<MadeFollowup> {
  const { deps } = engine;
  const { once } = create;
  const before = once === null ? undefined : await followupMadeBefore(deps, once);
  if (before !== undefined) return { followup: before, warnings: [], again: true };
  if ((await getThread(deps.db, create))?.ephemeral !== false) {
    throw new EngineError("not_found", `Thread with ID ${create.threadId} not found`);
  }
  const followupId = deps.ids.next<FollowupId>();
  const asked = {
    ...{ ...create, origin: await originOf(engine, create), followupId, timerId: deps.ids.next<TimerId>() },
    ...({ createdBy: "tenant", timeZone: null } as const),
  };
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, followupId))) return undefined;
    return scheduleFollowup(sql, asked);
  });
  // Another request with the key was faster.
  if (made === undefined) return createFollowup(engine, create);
  deps.notifier.notify("timers");
  return { ...made, again: false };
}

async function originOf({ deps, assistant }: Pick<Engine, "deps" | "assistant">, asked: Asked): Promise<Origin> {
  const { tenantId, threadId, conversationId, assistantId } = asked;
  const there = conversationId === null ? undefined : await conversationOn(deps, { ...asked, conversationId });
  const [newest] = await listRuns(deps.db, { tenantId, threadId, limit: 1, offset: 0 });
  if (newest !== undefined && assistantId === null) {
    return { ...newest, conversationId: there?.conversationId ?? newest.conversationId };
  }
  const account = there && (await getAccount(deps.db, there));
  const idOrGraphId = assistantId ?? account?.settings["assistant_id"];
  if (idOrGraphId === undefined) {
    const message = `Thread ${threadId} has no run: say who follows up, with "assistant_id" or "conversation_id"`;
    throw new EngineError("conflict", message);
  }
  const found = await assistant({ tenantId, idOrGraphId: String(idOrGraphId) });
  if (found === undefined) {
    throw new EngineError("bad_request", `assistant_id: there is no assistant ${JSON.stringify(idOrGraphId)}`);
  }
  const place = { tenantId, threadId, conversationId: there?.conversationId ?? newest?.conversationId ?? null };
  const { assistantId: whose, graphId } = found;
  return {
    ...place,
    assistantId: whose,
    graphId,
    runId: newest?.runId ?? null,
    followupId: newest?.followupId ?? null,
  };
}

async function conversationOn(
  deps: Deps,
  at: Readonly<{ tenantId: TenantId; threadId: ThreadId; conversationId: ConversationId }>,
): Promise<ConversationRow> {
  const found = await getConversation(deps.db, at);
  if (found?.threadId === at.threadId) return found;
  const message = `conversation_id: thread ${at.threadId} has no conversation ${at.conversationId}; GET /v1/conversations?thread_id= lists them`;
  throw new EngineError("bad_request", message, { details: { conversation_id: at.conversationId } });
}

function followupMadeBefore({ db }: Deps, once: Once) {
  const { tenantId } = once;
  return findMadeBefore(db, once, "follow-up", (id) => getFollowup(db, { tenantId, followupId: id as FollowupId }));
}
