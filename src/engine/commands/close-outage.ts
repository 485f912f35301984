// A provider works again: the breaker is closed, and those that wait for it go on, not all in the same moment. Or whoever was to
// find out has ended without having done so: then another one tries.
import type { Deps } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { type BreakerKey, closeBreaker, passTurn, runsWaitingFor } from "../../runs/breakers.js";
import { bringForward } from "../../schedule/timers.js";

/** So many a second go on, as long as that takes no longer than MAX_SPREAD_MS for all of them. */
const PER_SECOND = 50;
const MAX_SPREAD_MS = 30_000;

/** Closes the breaker of `key`, if there is one, and wakes who waits. */
export async function closeOutage(deps: Deps, key: BreakerKey): Promise<void> {
  // Not in one transaction: who fires a timer holds it and then asks the breaker. Whoever isn't woken has a timer anyway.
  await closeBreaker(deps.db, key);
  const refIds = await runsWaitingFor(deps.db, key);
  if (refIds.length === 0) return;
  const spreadMs = Math.min((refIds.length / PER_SECOND) * 1_000, MAX_SPREAD_MS);
  await bringForward(deps.db, { tenantId: key.tenantId, kind: "run.release", refIds, spreadMs });
  const fields = { tenant_id: key.tenantId, provider: key.provider, runs: refIds.length };
  deps.log.info(fields, "a provider works again");
  deps.notifier.notify("timers");
}

/** Lets another run try, if it was this one's turn. */
export async function leaveTurn(deps: Deps, turn: BreakerKey & Readonly<{ runId: RunId }>): Promise<void> {
  const next = await passTurn(deps.db, turn);
  if (next === undefined) return;
  await bringForward(deps.db, { tenantId: turn.tenantId, kind: "run.release", refIds: [next], spreadMs: 0 });
  deps.notifier.notify("timers");
}
