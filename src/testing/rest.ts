// What a test wants to know of the database: whether everything has come to rest, and what a run's log says.
import { setTimeout as sleep } from "node:timers/promises";
import type { Lease } from "../core/clock.js";
import type { Sql } from "../core/deps.js";
import { DEFAULT_TENANT, type RunId } from "../core/ids.js";
import { FIRED_KINDS } from "../engine/commands/fire-timers.js";
import { isSending } from "../delivery/deliveries.js";
import { nextDeliveryInMs } from "../delivery/outbox.js";
import { endLeaseNow, unrestedRuns } from "../runs/rest.js";
import { listEvents } from "../runs/events.js";
import { nextDueInMs } from "../schedule/timers.js";

const PATIENCE_MS = 60_000;
/** As long as one process needs to see what another wrote. */
const QUIET_MS = 20;
/** Channels want messages to one person to be apart; what waits for that only is on its way. */
const SPACED_MS = 10_000;

/** Resolves when no run runs or may start, no timer is due and no message is on its way, twice in a row. */
export async function waitUntilIdle(sql: Sql): Promise<void> {
  let quiet = 0;
  for (const endMs = performance.now() + PATIENCE_MS; quiet < 2; await sleep(QUIET_MS)) {
    const left = await whatIsLeft(sql);
    quiet = left === null ? quiet + 1 : 0;
    if (left !== null && performance.now() > endMs) throw new Error(`not idle after a minute: ${left}`);
  }
}

async function whatIsLeft(sql: Sql): Promise<string | null> {
  const [run] = await unrestedRuns(sql, DEFAULT_TENANT);
  if (run !== undefined) return `run ${run.runId} is ${run.status}`;
  const dueInMs = await nextDueInMs(sql, FIRED_KINDS);
  if (dueInMs !== null && dueInMs <= 0) return "a timer is due";
  const sentInMs = await nextDeliveryInMs(sql);
  if (sentInMs !== null && sentInMs <= SPACED_MS) return "a message is to be sent";
  return (await isSending(sql, DEFAULT_TENANT)) ? "a message is being sent" : null;
}

/** The lease of an attempt that died is over now, not in its time. */
export const endLease = (sql: Sql, lease: Lease): Promise<void> => endLeaseNow(sql, lease);

export type LoggedEvent = Readonly<{
  type: string;
  attempt: number;
  payload: Readonly<Record<string, unknown>>;
  at: Date;
}>;

export async function eventsOf(sql: Sql, runId: string): Promise<LoggedEvent[]> {
  const events = await listEvents(sql, { tenantId: DEFAULT_TENANT, runId: runId as RunId });
  return events.map(({ type, attempt, payload, createdAt }) => ({ type, attempt, payload, at: createdAt }));
}
