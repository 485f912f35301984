// What operators watch of the whole installation: read when somebody asks, at most once in a few seconds in each process.
import { countPending } from "../approvals/measure.js";
import type { Deps } from "../core/deps.js";
import { measureDeliveries } from "../delivery/measure.js";
import type { GaugeSpec, Reading, Readings } from "../observe/meters.js";
import { measureRuns } from "../runs/measure.js";
import { measureTimers } from "../schedule/measure.js";

/** Counted no further: many is what such a number says. */
const LIMIT = 10_000;
const FRESH_MS = 5_000;
const capped = `, counted up to ${LIMIT}`;

export const GAUGES = {
  perdure_runs: { help: `Runs that aren't over, by what becomes of them now${capped}`, labels: ["state"] },
  perdure_runs_ready_age_seconds: { help: "For how long the oldest run has been ready without a worker", labels: [] },
  perdure_runs_attention: { help: `Runs that failed and wait for a person${capped}`, labels: [] },
  perdure_approvals_pending: { help: `Questions that wait for an answer${capped}`, labels: [] },
  perdure_breakers_open: { help: "Providers that are left alone for now", labels: [] },
  perdure_deliveries: { help: `Messages that aren't settled, by state${capped}`, labels: ["state"] },
  perdure_timers_overdue: { help: `Timers that are due and not taken, by kind${capped}`, labels: ["kind"] },
  perdure_timers_overdue_seconds: { help: "For how long the first of them has been due, by kind", labels: ["kind"] },
} as const satisfies Readonly<Record<string, GaugeSpec>>;

export type Measures = () => Promise<Readings>;

export function createMeasures({ db, clock }: Pick<Deps, "db" | "clock">): Measures {
  let last: Readonly<{ atMs: number; readings: Promise<Readings> }> | undefined;
  return () => {
    const atMs = clock.monotonicMs();
    if (last === undefined || atMs - last.atMs >= FRESH_MS) {
      const readings = measure(db);
      last = { atMs, readings };
      readings.catch(() => (last = undefined));
    }
    return last.readings;
  };
}

async function measure(db: Deps["db"]): Promise<Readings> {
  const runs = await measureRuns(db, LIMIT);
  const deliveries = await measureDeliveries(db, LIMIT);
  const timers = await measureTimers(db, LIMIT);
  const readings: Record<keyof typeof GAUGES, readonly Reading[]> = {
    perdure_runs: byState({
      ready: runs.ready,
      waiting: Math.max(0, runs.pending - runs.ready),
      running: runs.running,
      lost: runs.lost,
    }),
    perdure_runs_ready_age_seconds: plain(runs.readyForSeconds),
    perdure_runs_attention: plain(runs.needsAttention),
    perdure_approvals_pending: plain(await countPending(db, LIMIT)),
    perdure_breakers_open: plain(runs.breakersOpen),
    perdure_deliveries: byState({ ...deliveries }),
    perdure_timers_overdue: timers.map(({ kind, overdue }) => ({ labels: { kind }, value: overdue })),
    perdure_timers_overdue_seconds: timers.map(({ kind, seconds }) => ({ labels: { kind }, value: seconds })),
  };
  return readings;
}

function plain(value: number): Reading[] {
  return [{ labels: {}, value }];
}

function byState(values: Readonly<Record<string, number>>): Reading[] {
  return Object.entries(values).map(([state, value]) => ({ labels: { state }, value }));
}
