// Schedules a follow-up: one row and its timer, in the caller's transaction. Where its answer goes is where the turn came from; nobody
// can choose it.
import { createHash } from "node:crypto";
import type { AuthUser } from "../../core/access.js";
import type { Sql } from "../../core/deps.js";
import type { FollowupLimits } from "../../core/followup-limits.js";
import type { FollowupId, RunId, TenantId, ThreadId, TimerId } from "../../core/ids.js";
import { getConversation } from "../../delivery/conversations.js";
import type { RunRow } from "../../runs/runs.js";
import { getThread } from "../../runs/threads.js";
import {
  countOpen,
  findTwin,
  type FollowupMode,
  type FollowupRow,
  getFollowup,
  insertFollowup,
} from "../../schedule/followups.js";
import { setTimer } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import type { FollowupContent } from "../followup-runs.js";
import { instantOf, isoDurationMs, localText, UnclearTime, type When } from "../../schedule/when.js";

const DAY_MS = 24 * 60 * 60_000;
/** The same about the same time within this is the same. */
const TWIN_MS = 5 * 60_000;

export type FollowupAsked = Readonly<{
  about: string;
  instruction: string;
  mode: FollowupMode;
  when: When;
  /** An ISO 8601 duration after its time, from when on it isn't wanted any more. */
  notAfter?: string | undefined;
  cancelIfPersonWrites?: boolean | undefined;
  /** Who asks, where that is known: the run that does it is told. */
  user?: AuthUser | null;
}>;

/** What a follow-up is of: the run that promises it, or a thread on which somebody asks for it. */
export type Origin = Pick<
  RunRow,
  "tenantId" | "threadId" | "assistantId" | "graphId" | "conversationId" | "followupId"
> &
  Readonly<{ runId: RunId | null }>;

export type Scheduled = Readonly<{ followup: FollowupRow; firesAtLocal: string; warnings: readonly string[] }>;

/** Why it isn't scheduled, for whoever asked: a model reads it, and can mend what it asked for. */
export class FollowupRefused extends Error {
  override readonly name = "FollowupRefused";
}

/** Throws `FollowupRefused` or `UnclearTime`; then nothing is scheduled. The same id again gets what the first time made. */
export async function scheduleFollowup(
  sql: Sql,
  asked: FollowupAsked &
    Readonly<{
      origin: Origin | undefined;
      followupId: FollowupId;
      timerId: TimerId;
      createdBy: FollowupRow["createdBy"];
      /** For wall times without a zone, where nobody knows the person's. */
      timeZone: string | null;
      limits: FollowupLimits;
    }>,
): Promise<Scheduled> {
  const { origin, followupId, limits } = asked;
  if (origin === undefined) throw new FollowupRefused("There is no run to follow up on");
  const { tenantId } = origin;
  const made = await getFollowup(sql, { tenantId, followupId });
  if (made !== undefined) return scheduled(made, []);
  const root = await rootOf(sql, origin);
  if ((await getThread(sql, { tenantId, threadId: root }))?.ephemeral !== false) {
    throw new FollowupRefused("This run is on no thread that stays: there would be nobody to get back to");
  }
  const zone = await zoneOf(sql, origin, asked);
  const now = await databaseNow(sql);
  const { at, localTime, timeZone } = instantOf(asked.when, now, zone.timeZone);
  refuseFarAndNear(at, now, limits);
  const notAfter = notAfterOf(asked, at);
  const chain = await chainOf(sql, origin, followupId);
  if (chain.depth > limits.depth) {
    throw new FollowupRefused(
      `Follow-ups have scheduled follow-ups ${limits.depth} times in a row; the next one needs the person to write first`,
    );
  }
  const dedupeSha256 = fingerprint(tenantId, root, asked);
  const twin = await findTwin(sql, { tenantId, dedupeSha256, fireAt: at, withinMs: TWIN_MS });
  if (twin !== undefined) return scheduled(twin, ["The same follow-up is scheduled already; this is it"]);
  const open = await countOpen(sql, { tenantId, threadId: root, most: limits.perTenant });
  if (open.thread >= limits.perThread) {
    throw new FollowupRefused(`${open.thread} follow-ups are open here; cancel one first`);
  }
  if (open.tenant >= limits.perTenant) throw new FollowupRefused("Too many follow-ups are open; none can be added now");
  const followup = await insertFollowup(sql, {
    ...{
      tenantId,
      followupId,
      threadId: root,
      originRunId: origin.runId,
      createdBy: asked.createdBy,
      mode: asked.mode,
    },
    ...{ assistantId: origin.assistantId, graphId: origin.graphId, conversationId: origin.conversationId },
    content: Buffer.from(JSON.stringify(contentFrom(asked)), "utf8"),
    ...{
      fireAt: at,
      localTime,
      timeZone,
      notAfter,
      cancelOnInbound: asked.cancelIfPersonWrites ?? false,
      dedupeSha256,
    },
    ...chain,
  });
  if (followup === undefined) throw new FollowupRefused("The same follow-up was scheduled at the same moment");
  await setTimer(sql, { tenantId, timerId: asked.timerId, kind: "followup", refId: followupId, when: { at } });
  return scheduled(followup, zone.warnings);
}

function contentFrom({ about, instruction, user = null }: FollowupAsked): FollowupContent {
  return { about, instruction, ...(user !== null && { user }) };
}

function scheduled(followup: FollowupRow, warnings: readonly string[]): Scheduled {
  return { followup, firesAtLocal: localText(followup.fireAt, followup.timeZone ?? "UTC"), warnings };
}

/** Whose follow-ups a run's are: one of a follow-up's work is the conversation's. */
export async function rootOf(sql: Sql, origin: Origin): Promise<ThreadId> {
  const parent = await parentOf(sql, origin);
  return parent?.threadId ?? origin.threadId;
}

async function chainOf(sql: Sql, origin: Origin, followupId: FollowupId) {
  const parent = await parentOf(sql, origin);
  return parent === undefined
    ? { depth: 1, chainId: followupId as string }
    : { depth: parent.depth + 1, chainId: parent.chainId };
}

async function parentOf(sql: Sql, { tenantId, followupId }: Origin): Promise<FollowupRow | undefined> {
  return followupId === null ? undefined : getFollowup(sql, { tenantId, followupId });
}

async function zoneOf(sql: Sql, origin: Origin, { timeZone, when }: Readonly<{ timeZone: string | null; when: When }>) {
  const { tenantId, conversationId } = origin;
  const conversation = conversationId === null ? undefined : await getConversation(sql, { tenantId, conversationId });
  const known = conversation?.timeZone ?? timeZone;
  const guesses = known === null && "at" in when && when.timeZone === undefined;
  return {
    timeZone: known ?? "UTC",
    warnings: guesses ? ["Nobody knows the person's time zone: UTC was taken. Ask them, if the hour matters"] : [],
  };
}

export function refuseFarAndNear(at: Date, now: Date, { shortestMs, horizonMs }: FollowupLimits): void {
  const inMs = at.getTime() - now.getTime();
  if (inMs < shortestMs) throw new UnclearTime(`when: must be at least ${shortestMs / 1_000} seconds from now`);
  if (inMs > horizonMs) throw new UnclearTime(`when: must be within ${horizonMs / DAY_MS} days`);
}

function notAfterOf({ notAfter }: FollowupAsked, at: Date): Date | null {
  if (notAfter === undefined) return null;
  const ms = isoDurationMs(notAfter);
  if (ms === undefined) throw new UnclearTime(`notAfter: "${notAfter}" is no duration; it is like PT2H or P2D`);
  return new Date(at.getTime() + ms);
}

function fingerprint(tenantId: TenantId, threadId: ThreadId, { about, instruction, mode }: FollowupAsked): Buffer {
  return createHash("sha256").update([tenantId, threadId, mode, about, instruction].join("\0")).digest();
}
