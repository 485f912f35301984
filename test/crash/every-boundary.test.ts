// A run with a budget, an approval and an effect is killed at every boundary between two durable writes, with every policy. Which
// boundaries there are is found by living through it once: each transaction that wrote, and each object. By default only those
// around the call are tried, each with another policy; PERDURE_KILLS=each tries each boundary, and those around the call with each
// policy; PERDURE_KILLS=all (npm run test:kills) every boundary with every policy.
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { expectedEnd, NOT_KILLED, outcomeOf } from "./boundaries/expected.js";
import { type Policy, POLICIES } from "./boundaries/life.js";
import { type Kill, live, type Point, startVictim, type Victim } from "./boundaries/live.js";
import { type Payments, startPayments } from "./boundaries/service.js";

const HOW = process.env["PERDURE_KILLS"] ?? "quick";
/** Lives at a time. */
const AT_ONCE = 2;

/** What the mover writes: it comes once more or once less for the same work, as it happens to look. */
const MOVER = /^(schedule\/timer|checkpoint\/packs|object stored)/;

type Cut = Readonly<{ policy: Policy; kill: Kill; place: string; isNear: boolean }>;

/** Every boundary of a life, from both sides; the call itself has two moments. */
function cutsOf(policy: Policy, points: readonly Point[]): Cut[] {
  const first = points.findIndex(({ writes }) => writes.startsWith("effects"));
  const last = points.findLastIndex(({ label, writes }) => label === "engine/commit" && writes.startsWith("effects"));
  return points.flatMap(({ label, nth, writes }, i) => {
    const isNear = i >= first && i <= last + 1;
    const cut = (side: Kill["side"], what: string): Cut => {
      return { policy, kill: { label, nth, side }, place: what, isNear };
    };
    const sides = [
      cut("before", `before ${label} ${nth}: ${writes}`),
      cut("after", `after ${label} ${nth}: ${writes}`),
    ];
    if (i !== first || policy === "local") return sides;
    return [...sides, cut("asked", "in the call, before it is done"), cut("done", "in the call, after it is done")];
  });
}

/** Of all cuts those that are to be tried. */
function chosen(cuts: readonly (readonly Cut[])[]): Cut[] {
  const all = cuts.flat();
  if (HOW === "all") return all;
  const isItsTurn = (i: number, policy: number): boolean => i % cuts.length === policy;
  if (HOW === "each") return cuts.flatMap((own, policy) => own.filter((cut, i) => cut.isNear || isItsTurn(i, policy)));
  const near = cuts.map((own) => own.filter((cut) => cut.isNear));
  return near.flatMap((own, policy) => own.filter((_, i) => isItsTurn(i, policy)));
}

async function withPayments(work: (payments: Payments) => Promise<void>): Promise<void> {
  const payments = await startPayments();
  process.env["CRASH_SERVICE"] = payments.url;
  try {
    await work(payments);
  } finally {
    await payments.close();
  }
}

/** Each of them, a few at a time, in processes that were started beforehand. */
async function tryAll<T, R>(
  payments: Payments,
  all: readonly T[],
  work: (victim: Victim, one: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const queue = [...all.entries()];
  const line = async (): Promise<void> => {
    let next = queue.length > 0 ? startVictim(payments) : undefined;
    try {
      for (let entry = queue.shift(); entry !== undefined && next !== undefined; entry = queue.shift()) {
        const victim = next;
        next = queue.length > 0 ? startVictim(payments) : undefined;
        results[entry[0]] = await work(victim, entry[1]);
      }
    } finally {
      await next?.kill();
    }
  };
  const lines = await Promise.allSettled(Array.from({ length: AT_ONCE }, line));
  for (const ended of lines) if (ended.status === "rejected") throw ended.reason;
  return results;
}

test("a run that is killed between any two durable writes ends as its effect's policy says, and nothing is done twice", async () => {
  await withPayments(async (payments) => {
    const policies = HOW === "quick" ? (["ask", "fail", "retry"] as const) : POLICIES;
    const lives = await tryAll(payments, policies, (victim, policy) => live(victim, payments, policy, null));
    for (const { elsewhere, points, run, thread } of lives) {
      // Whatever writes has a boundary, or this must be told of it.
      expect(elsewhere).toEqual([]);
      expect([run, thread]).toEqual(["success", "idle"]);
      expect(points.length).toBeGreaterThan(30);
    }
    const cuts = chosen(lives.map(({ points }, i) => cutsOf(policies[i] as Policy, points)));
    const table = new Map(cuts.map(({ place }) => [place, new Map<Policy, string>()]));
    const wrong: object[] = [];
    let missed = 0;
    await tryAll(payments, cuts, async (victim, { policy, kill, place, isNear }) => {
      const { points: _, elsewhere: __, ...ended } = await live(victim, payments, policy, kill);
      missed += ended.left === null ? 1 : 0;
      const isSure = isNear && !MOVER.test(kill.label);
      const expected = ended.left === null && isSure ? "killed there" : expectedEnd(policy, ended.left ?? NOT_KILLED);
      if (!isDeepStrictEqual({ ...ended, left: null }, expected)) wrong.push({ policy, place, ended, expected });
      table.get(place)?.set(policy, outcomeOf(ended));
    });
    if (HOW !== "quick") print(table, cuts.length);
    expect(wrong).toEqual([]);
    expect(missed).toBeLessThanOrEqual(cuts.length / 20);
    expect(cuts.length).toBeGreaterThan(5);
  });
}, 3_600_000);

function print(table: ReadonlyMap<string, ReadonlyMap<Policy, string>>, killed: number): void {
  const rows = [...table].map(
    ([place, by]) => `| ${place} | ${POLICIES.map((policy) => by.get(policy) ?? "").join(" | ")} |`,
  );
  console.log([`${killed} kills`, `| killed … | ${POLICIES.join(" | ")} |`, ...rows].join("\n"));
}
