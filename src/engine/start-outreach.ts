// What a schedule wants to say is judged once more as it goes out: it may have waited for long. Whoever says meanwhile that they want
// nothing waits for the mark, or is heeded by it.
import type { Deps } from "../core/deps.js";
import type { FollowupId, TimerId } from "../core/ids.js";
import { standingOf } from "../delivery/audience.js";
import { sourceOfDelivery } from "../delivery/deliveries.js";
import {
  type ClaimedDelivery,
  type DeliveryOutcome,
  type Started,
  startDelivery,
  QUIET_HOURS,
} from "../delivery/outbox.js";
import { outreachRules } from "../schedule/occurrences.js";
import { quietUntil } from "../schedule/quiet-hours.js";
import { setTimer } from "../schedule/timers.js";
import { databaseNow } from "./database-now.js";

export type Barred = Readonly<{ barred: Pick<DeliveryOutcome, "how" | "code"> }>;

/** The mark, in one transaction with what allows it; or what becomes of the message instead. */
export async function startOutreach(
  { db, ids }: Pick<Deps, "db" | "ids">,
  delivery: ClaimedDelivery,
): Promise<Started | Barred | undefined> {
  const { tenantId, conversationId } = delivery;
  return db.tx(async (sql) => {
    const source = await sourceOfDelivery(sql, delivery);
    const rules = source && (await outreachRules(sql, { tenantId, followupId: source.sourceId as FollowupId }));
    const marketing = rules?.marketing ?? true;
    const standing = await standingOf(sql, { tenantId, conversationId, marketing, lock: true });
    if (standing === undefined || source === undefined) return undefined;
    if (standing.suppressed) return barred("suppressed", "suppressed");
    if (rules?.marketing === true && !standing.optedIn) return barred("suppressed", "no_opt_in");
    const now = await databaseNow(sql);
    // Who was told that something waits, and wants to see it, is not disturbed by it.
    const quiet = rules && !source.announced && quietUntil(rules.quietHours, now, standing.timeZone ?? rules.timeZone);
    if (!quiet) return startDelivery(sql, delivery);
    if (source.notAfter !== null && quiet > source.notAfter) return barred("expired", QUIET_HOURS);
    // It doesn't keep its place: what the person is answered meanwhile goes.
    await setTimer(sql, {
      tenantId,
      timerId: ids.next<TimerId>(),
      kind: "outreach",
      refId: source.sourceId,
      when: { at: quiet },
    });
    return barred("parked", QUIET_HOURS);
  });
}

const barred = (how: Barred["barred"]["how"], code: string): Barred => ({ barred: { how, code } });
