// What is done with follow-ups, whichever door it is asked through: by then it is known that its caller may.
import type { Context } from "hono";
import { EngineError } from "../core/errors.js";
import type { ConversationId, FollowupId, TenantId, ThreadId, TimerId } from "../core/ids.js";
import { cancelFollowupIn, rescheduleFollowupIn } from "../engine/commands/change-followup.js";
import { createFollowup, type MadeFollowup } from "../engine/commands/create-followup.js";
import type { Once } from "../engine/commands/make-once.js";
import { FollowupRefused } from "../engine/commands/schedule-followup.js";
import type { Engine } from "../engine/engine.js";
import { refusingUnclear } from "../engine/refusing-unclear.js";
import { type FollowupRow, getFollowup } from "../schedule/followups.js";
import type { When } from "../schedule/when.js";
import { userOf } from "./auth/ask.js";
import { mayUseAssistant } from "./auth/ask-run.js";
import type { ApiEnv } from "./env.js";

type FollowupKey = Readonly<{ tenantId: TenantId; followupId: FollowupId }>;

/** Throws `not_found`. */
export async function findFollowup({ deps }: Engine, key: FollowupKey): Promise<FollowupRow> {
  const followup = await getFollowup(deps.db, key);
  if (followup === undefined) throw new EngineError("not_found", `Follow-up ${key.followupId} not found`);
  return followup;
}

export type FollowupAsked = Readonly<{
  threadId: ThreadId;
  about: string;
  instruction: string;
  mode: "remind" | "work";
  when: When;
  notAfter?: string | undefined;
  cancelIfPersonWrites?: boolean | undefined;
  conversationId?: string | undefined;
  assistantId?: string | undefined;
  once: Once | null;
}>;

/** The answer goes to the conversation that is named, or where the thread's last turn came from. */
export async function scheduleFollowup(
  engine: Engine,
  c: Context<ApiEnv>,
  { conversationId, assistantId, notAfter, cancelIfPersonWrites, ...asked }: FollowupAsked,
): Promise<MadeFollowup> {
  await refuseOthersAssistant(engine, c, assistantId);
  const create = {
    ...{
      tenantId: c.get("tenantId"),
      ...asked,
      notAfter,
      cancelIfPersonWrites,
      limits: engine.followups,
      user: userOf(c),
    },
    ...{ conversationId: (conversationId ?? null) as ConversationId | null, assistantId: assistantId ?? null },
  };
  return refusing(() => createFollowup(engine, create));
}

/** Says whether it was too late. */
export async function cancelFollowup({ deps }: Engine, key: FollowupKey, reason: string): Promise<string> {
  const timerId = deps.ids.next<TimerId>();
  const { outcome } = await deps.db.tx((sql) => cancelFollowupIn(sql, { ...key, threadId: null, timerId, reason }));
  deps.notifier.notify("timers");
  return outcome;
}

export async function rescheduleFollowup(engine: Engine, followup: FollowupRow, when: When): Promise<FollowupRow> {
  const { deps, followups: limits } = engine;
  const change = { ...followup, threadId: null, timerId: deps.ids.next<TimerId>(), when, limits };
  await refusing(() => deps.db.tx((sql) => rescheduleFollowupIn(sql, change)));
  deps.notifier.notify("timers");
  return findFollowup(engine, followup);
}

/** To who may not use it, it isn't there. */
async function refuseOthersAssistant(engine: Engine, c: Context<ApiEnv>, id: string | undefined): Promise<void> {
  const tenantId = c.get("tenantId");
  const assistant = id === undefined ? undefined : await engine.assistant({ tenantId, idOrGraphId: id });
  if (assistant === undefined || (await mayUseAssistant(engine, c, assistant))) return;
  throw new EngineError("bad_request", `assistant_id: there is no assistant ${JSON.stringify(id)}`);
}

/** What a graph's own model is told as an answer, a program is told as an error. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await refusingUnclear(work);
  } catch (error) {
    if (error instanceof FollowupRefused) throw new EngineError("conflict", error.message);
    throw error;
  }
}
