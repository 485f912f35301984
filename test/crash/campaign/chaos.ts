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

type Mischief = "kills" | "freezes" | "databaseRestarts" | "terminatedBackends" | "cuts" | "lostReplies";

/** How many of a hundred; kills come most. */
const ODDS: readonly (readonly [Mischief, number])[] = [
  ["kills", 62],
  ["freezes", 5],
  ["databaseRestarts", 6],
  ["terminatedBackends", 9],
  ["cuts", 9],
  ["lostReplies", 9],
];

/** One thing after the other, `everyMs` apart on average. */
export function startChaos(site: Site, random: () => number, everyMs: number): Chaos {
  const counts = { kills: 0, freezes: 0, databaseRestarts: 0, terminatedBackends: 0, cuts: 0, lostReplies: 0 };
  const stopping = new AbortController();
  let frozen = 0;
  const oneOf = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

  const freeze = async (process: Undying): Promise<void> => {
    const pid = process.pid();
    if (pid === undefined) return;
    frozen += 1;
    process.signal("SIGSTOP");
    // Longer than its lease, so that another takes what it holds and it wakes into a world that went on.
    await sleep(LEASE_MS * 1.7, undefined, { signal: stopping.signal }).catch(() => undefined);
    if (process.pid() === pid) process.signal("SIGCONT");
    frozen -= 1;
  };
  const acts: Readonly<Record<Mischief, () => unknown>> = {
    kills: () => oneOf([...site.workers, ...site.workers, ...site.apis]).signal("SIGKILL"),
    freezes: () => freeze(oneOf(site.workers)),
    databaseRestarts: () => site.killPostgres(),
    terminatedBackends: () =>
      site.db.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
      ),
    cuts: () => site.proxy.cut(),
    lostReplies: async () => {
      // The next statement that writes is done, and nobody hears of it.
      site.proxy.faults.loseReplyTo = (chunk) => /insert|update/i.test(chunk.toString("latin1"));
      await sleep(20);
      site.proxy.faults.loseReplyTo = null;
    },
  };
  const thaws = new Set<Promise<unknown>>();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await sleep(everyMs * (0.5 + random()), undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      const mischief = pick(random());
      counts[mischief] += 1;
      const done = Promise.resolve()
        .then(acts[mischief])
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
