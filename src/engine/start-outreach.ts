// What a schedule wants to say is judged once more as it goes out: it may have waited for long. Whoever says meanwhile that they want
// nothing waits for the mark, or is heeded by it.
import type { Deps } from "../core/deps.js";
import type { FollowupId } from "../core/ids.js";
import { standingOf } from "../delivery/audience.js";
import {
  type ClaimedDelivery,
  type DeliveryOutcome,
  sourceOfDelivery,
  type Started,
  startDelivery,
} from "../delivery/outbox.js";
import { outreachRules } from "../schedule/occurrences.js";
import { quietUntil } from "../schedule/quiet-hours.js";
import { databaseNow } from "./database-now.js";

export type Barred = Readonly<{ barred: Pick<DeliveryOutcome, "how" | "code" | "afterMs"> }>;

/** The mark, in one transaction with what allows it; or what becomes of the message instead. */
export async function startOutreach(
  { db }: Pick<Deps, "db">,
  delivery: ClaimedDelivery,
): Promise<Started | Barred | undefined> {
  const { tenantId, conversationId } = delivery;
  return db.tx(async (sql) => {
    const source = await sourceOfDelivery(sql, delivery);
    const rules = source && (await outreachRules(sql, { tenantId, followupId: source.sourceId as FollowupId }));
    const marketing = rules?.marketing ?? true;
    const standing = await standingOf(sql, { tenantId, conversationId, marketing, lock: true });
    if (standing === undefined || source === undefined) return undefined;
    if (standing.suppressed) return { barred: { how: "suppressed", code: "suppressed", afterMs: 0 } };
    if (rules?.marketing === true && !standing.optedIn) {
      return { barred: { how: "suppressed", code: "no_opt_in", afterMs: 0 } };
    }
    const now = await databaseNow(sql);
    const quiet = rules && quietUntil(rules.quietHours, now, standing.timeZone ?? rules.timeZone);
    if (quiet) return { barred: afterQuietHours(source.notAfter, now, quiet) };
    return startDelivery(sql, delivery);
  });
}

function afterQuietHours(notAfter: Date | null, now: Date, until: Date): Barred["barred"] {
  const code = "quiet_hours";
  if (notAfter !== null && until > notAfter) return { how: "expired", code, afterMs: 0 };
  return { how: "later", code, afterMs: until.getTime() - now.getTime() };
}
