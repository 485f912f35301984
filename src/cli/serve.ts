// `perdure start`, `api` and `worker`: a process that serves until it is told to stop. It starts with Postgres away and
// waits for it; it takes no work before the schema was checked, and gives work back when it stops.
import type { Clock } from "../core/clock.js";
import type { Db, Log } from "../core/deps.js";
import { backoffMs, isTransientDbError } from "../core/retry.js";
import { checkSchema } from "../db/migrate.js";
import { watchStrayErrors } from "../engine/stray-errors.js";
import { stopSignal } from "./stop-signal.js";

export type Served = Readonly<{
  name: string;
  db: Db;
  clock: Clock;
  log: Log;
  random: () => number;
  /** Resolves when it is to begin, and what it replaces makes way; null: at once, also with the database away. */
  turn: (() => Promise<void>) | null;
  /** Takes requests, if this process does. */
  listen: (() => Promise<Readonly<{ url: string; close(): Promise<void> }>>) | null;
  /** What has to be done once the database is there, each time a process starts. */
  prepare(): Promise<void>;
  /** Made when they are to be started. */
  loops(): readonly Readonly<{ start(): void; stop(): Promise<void> }>[];
  /** Closes the parts, last. */
  close(): Promise<void>;
  /** Told when everything runs. */
  onReady(url: string | null): void;
}>;

/** Serves until SIGTERM, SIGINT or the supervisor's end. A second signal ends the process at once. */
export async function serve(served: Served): Promise<void> {
  const { log, name } = served;
  const unwatch = watchStrayErrors(log);
  const stop = stopSignal(() => {
    unwatch();
    log.warn({}, "told to stop twice: ending at once");
    process.exit(1);
  });
  const closing: (() => Promise<void>)[] = [() => served.close()];
  try {
    if (served.turn !== null) {
      await waitForDatabase(served, stop.signal);
      await Promise.race([served.turn(), stop.stopped]);
      if (stop.signal.aborted) return;
    }
    // First of all, so that health checks get an answer while the database is away.
    const api = await served.listen?.();
    if (api !== undefined) {
      closing.push(() => api.close());
      log.info({ url: api.url }, "listening");
    }
    if (served.turn === null) await waitForDatabase(served, stop.signal);
    if (stop.signal.aborted) return;
    const loops = served.loops();
    for (const loop of loops) loop.start();
    closing.push(async () => void (await Promise.all(loops.map((loop) => loop.stop()))));
    log.info({}, `perdure ${name} is ready`);
    served.onReady(api?.url ?? null);
    await stop.stopped;
    log.info({}, "stopping: no new work, runs are given back");
  } finally {
    // The API and the loops at once, then what both stand on.
    const [parts, ...doors] = closing;
    await Promise.all(doors.map((close) => close()));
    await parts?.();
    stop.dispose();
    unwatch();
  }
}

async function waitForDatabase(served: Served, signal: AbortSignal): Promise<void> {
  const { db, clock, log, random } = served;
  for (let tries = 1; !signal.aborted; tries += 1) {
    try {
      await checkSchema(db);
      await served.prepare();
      return;
    } catch (error) {
      if (!isTransientDbError(error)) throw error;
      const waitMs = backoffMs(tries, random(), 200, 5_000);
      log.warn(
        { code: String((error as { code?: unknown }).code), wait_ms: Math.round(waitMs) },
        "Postgres can't be reached; trying again",
      );
      await clock.sleep(waitMs, signal);
    }
  }
}
