// Arithmetic of measurements, and the clock that all processes of a machine share.
import { setTimeout as sleep } from "node:timers/promises";

/** Milliseconds on the monotonic clock of the machine: comparable between its processes. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Linear between the two nearest; NaN of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * q;
  const low = sorted[Math.floor(place)];
  const high = sorted[Math.ceil(place)];
  return low === undefined || high === undefined ? Number.NaN : low + (high - low) * (place % 1);
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Runs `work(i)` for each i < n, at most `concurrency` of them at a time. */
export async function pool(n: number, concurrency: number, work: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < n) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, n) }, lane));
}

export type Timed = Readonly<{ seconds: number; latenciesMs: readonly number[] }>;

/** `pool`, timed: each piece of work and all of it. */
export async function timedPool(n: number, concurrency: number, work: () => Promise<unknown>): Promise<Timed> {
  const latenciesMs: number[] = [];
  const startedMs = nowMs();
  await pool(n, concurrency, async () => {
    const atMs = nowMs();
    await work();
    latenciesMs.push(nowMs() - atMs);
  });
  return { seconds: (nowMs() - startedMs) / 1_000, latenciesMs };
}

/** Waits anything from `fromMs` to twice as long, so that arrivals fall anywhere between two polls. */
export const randomPause = (fromMs: number): Promise<void> => sleep(fromMs * (1 + Math.random()));
