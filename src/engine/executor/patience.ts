// Reads of an attempt are tried again while Postgres or the object store is away and its lease holds: a restart or a minute's outage
// is no reason to fail a run, or to give it to somebody who would read the same.
import type { BodyReader } from "../../checkpoint/body-reader.js";
import type { BodyStore, Deps } from "../../core/deps.js";
import { retryTransient } from "../../db/retry-transient.js";

/** An outage of the object store longer than this hands the run back: it waits without a worker then. */
const STORE_PATIENCE_MS = 120_000;

type Patience = Readonly<{
  db: Deps["db"];
  bodies: BodyStore;
  /** The process's own reader, with its cache. */
  reader: BodyReader;
}>;

/** Aborting `attempt` ends every wait; aborting `draining` those for the object store. */
export function patient(
  deps: Deps,
  reader: BodyReader,
  signals: Readonly<{ attempt: AbortSignal; draining: AbortSignal }>,
): Patience {
  const { clock, random, db, bodies } = deps;
  const forDb = { clock, random, deadlineMs: Number.POSITIVE_INFINITY, signal: signals.attempt };
  const forStore = {
    clock,
    random,
    deadlineMs: STORE_PATIENCE_MS,
    // What is made of a signal that lives as long as the process isn't made for every run.
    get signal() {
      return AbortSignal.any([signals.attempt, signals.draining]);
    },
  };
  const again = <T>(read: () => Promise<T>): Promise<T> => retryTransient(read, forStore);
  return {
    db: {
      tx: (work) => db.tx(work),
      close: () => db.close(),
      query: (text, values, options) => retryTransient(() => db.query(text, values, options), forDb),
    },
    bodies: { ...bodies, read: (key, range) => again(() => bodies.read(key, range)) },
    reader: {
      load: (...of) => again(() => reader.load(...of)),
      read: (...of) => again(() => reader.read(...of)),
      packs: { readBlocks: (...of) => again(() => reader.packs.readBlocks(...of)) },
    },
  };
}
