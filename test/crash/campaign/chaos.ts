// What goes wrong, again and again, at moments that follow a seed.
import { setTimeout as sleep } from "node:timers/promises";
import { LEASE_MS, type Site, type Undying } from "./site.js";

export type Chaos = Readonly<{
  /** How often each thing has happened. */
  counts: Readonly<Record<Mischief, number>>;
  /** A process is frozen now: what it was doing may still be done. */
  frozen(): boolean;
  stop(): Promise<void>;
}>;

const COUNTS = {
  kills: 0,
  freezes: 0,
  databaseRestarts: 0,
  terminatedBackends: 0,
  cuts: 0,
  lostReplies: 0,
  clockJumps: 0,
  databaseClockJumps: 0,
};
type Mischief = keyof typeof COUNTS;

/** How many of a hundred; kills come most. */
const ODDS: readonly (readonly [Mischief, number])[] = [
  ["kills", 62],
  ["freezes", 5],
  ["databaseRestarts", 6],
  ["terminatedBackends", 7],
  ["cuts", 7],
  ["lostReplies", 7],
  ["clockJumps", 3],
  ["databaseClockJumps", 3],
];

/** What writes, as it looks on the wire: the commits, claims and settlements that are kept prepared go by their names. */
const WRITES = /insert|update|commit|perdure_[0-9a-f]{40}/i;

/** How wrong a machine's clock may be, and how wrong the database's, which has to come to rest in time. */
const WRONG_MS = 600_000;
const DATABASE_WRONG_MS = 3 * LEASE_MS;

/** One thing after the other, `everyMs` apart on average. */
export function startChaos(site: Site, random: () => number, everyMs: number): Chaos {
  const counts = { ...COUNTS };
  const stopping = new AbortController();
  let frozen = 0;
  const oneOf = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

  const within = (ms: number): number => Math.round((random() * 2 - 1) * ms);

  const freeze = async (process: Undying): Promise<boolean> => {
    const pid = process.pid();
    if (!process.signal("SIGSTOP")) return false;
    frozen += 1;
    // Longer than its lease, so that another takes what it holds and it wakes into a world that went on.
    await sleep(LEASE_MS * 1.7, undefined, { signal: stopping.signal }).catch(() => undefined);
    if (process.pid() === pid) process.signal("SIGCONT");
    frozen -= 1;
    return true;
  };
  /** Each says how often it has happened: once, when it says nothing. */
  const acts: Readonly<Record<Mischief, () => unknown>> = {
    kills: () => oneOf([...site.workers, ...site.workers, ...site.apis]).signal("SIGKILL"),
    freezes: () => freeze(oneOf(site.workers)),
    databaseRestarts: () => site.killPostgres(),
    terminatedBackends: () => site.terminateBackends(),
    cuts: () => site.proxy.cut(),
    lostReplies: async () => {
      const { faults, lostReplies } = site.proxy;
      const before = lostReplies();
      // It is done, and nobody hears of it.
      faults.loseReplyTo = (chunk) => WRITES.test(chunk.toString("latin1"));
      for (let waited = 0; waited < 500 && lostReplies() === before; waited += 20) await sleep(20);
      faults.loseReplyTo = null;
      return lostReplies() - before;
    },
    clockJumps: () => oneOf([...site.workers, ...site.apis]).setClock(within(WRONG_MS)),
    databaseClockJumps: () => site.setDatabaseClock(within(DATABASE_WRONG_MS)),
  };
  const thaws = new Set<Promise<unknown>>();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await sleep(everyMs * (0.5 + random()), undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      const mischief = pick(random());
      const done = Promise.resolve()
        .then(acts[mischief])
        .then((times) => (counts[mischief] += Number(times ?? 1)))
        .catch(() => undefined);
      thaws.add(done);
      void done.finally(() => thaws.delete(done));
    }
  })();
  return {
    counts,
    frozen: () => frozen > 0,
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(thaws);
    },
  };
}

function pick(chance: number): Mischief {
  let left = chance * 100;
  for (const [mischief, odds] of ODDS) {
    left -= odds;
    if (left < 0) return mischief;
  }
  return "kills";
}
