// Whether what a schedule made for somebody goes out now: what has changed since it was made counts.
import type { Sql } from "../../core/deps.js";
import { standingOf } from "../../delivery/audience.js";
import { countReady } from "../../runs/runs.js";
import type { FollowupRow } from "../../schedule/followups.js";
import { lockRecipient, lockWork, markFired, outreachRules, workUnderWay } from "../../schedule/occurrences.js";
import { quietUntil } from "../../schedule/quiet-hours.js";
import { databaseNow } from "../database-now.js";
import type { OutreachLimits } from "../../core/outreach-limits.js";

/** Of work under way, what is counted: the rest sleeps. */
const MOST_COUNTED = 500;

export type Judged =
  /** It goes out. */
  | null
  /** Somebody is at the same person, or at the tenant's work, just now. */
  | "held"
  /** As much work is under way as may be. */
  | "full"
  | Readonly<{ status: "skipped" | "expired" | "cancelled"; reason: string }>
  | Readonly<{ until: Date; afterMs: number; reason: string }>;

/** In the transaction that fires it, which has locked it. Null as well for what no schedule made. */
export async function judgeOutreach(sql: Sql, followup: FollowupRow, limits: OutreachLimits): Promise<Judged> {
  const { tenantId, scheduleId, conversationId, mode } = followup;
  if (scheduleId === null) return null;
  const rules = await outreachRules(sql, followup);
  if (rules === undefined) return { status: "cancelled", reason: "its schedule is gone" };
  const { marketing, recipient } = rules;
  if (!(await lockRecipient(sql, { tenantId, recipient }))) return "held";
  const standing =
    conversationId === null ? undefined : await standingOf(sql, { tenantId, conversationId, marketing, lock: false });
  if (standing === undefined) return { status: "skipped", reason: "no conversation" };
  if (standing.suppressed) return { status: "skipped", reason: "suppressed" };
  if (marketing && !standing.optedIn) return { status: "skipped", reason: "no opt-in to marketing" };
  if (rules.recent >= limits.perDay) {
    return { status: "skipped", reason: `${rules.recent} messages went to this person within a day` };
  }
  const now = await databaseNow(sql);
  const until = quietUntil(rules.quietHours, now, standing.timeZone ?? rules.timeZone);
  if (until !== null) return afterQuietHours(followup, now, until);
  if (mode === "work") {
    if (!(await lockWork(sql, followup))) return "held";
    if (await isFull(sql, followup, limits)) return "full";
  }
  await markFired(sql, followup);
  return null;
}

function afterQuietHours({ notAfter }: FollowupRow, now: Date, until: Date): Judged {
  if (notAfter !== null && until > notAfter)
    return { status: "expired", reason: "quiet hours last until it is too late" };
  return { until, afterMs: until.getTime() - now.getTime(), reason: "after quiet hours" };
}

/** What sleeps or waits for somebody takes no slot. */
async function isFull(sql: Sql, { tenantId }: FollowupRow, { running }: OutreachLimits): Promise<boolean> {
  const runIds = await workUnderWay(sql, { tenantId, most: MOST_COUNTED });
  return runIds.length >= running && (await countReady(sql, { tenantId, runIds })) >= running;
}
