// The scheduler: what somebody else holds, or what is slow, keeps nothing else from firing.
import { expect, test } from "vitest";
import { createFiring } from "../../src/engine/commands/fire-timers.js";
import { createScheduler } from "../../src/engine/loops/scheduler.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const graphs = () => ({ graph: stepsGraph(1, () => {}) });

/** Delayed runs on threads of their own, all due by now. */
async function dueRuns({ client, db }: TestEngine, n: number): Promise<string[]> {
  const threads: string[] = [];
  for (let i = 0; i < n; i += 1) {
    const { thread_id } = await client.threads.create();
    await client.runs.create(thread_id, "graph", { input: { log: [] }, afterSeconds: 3_600 });
    threads.push(thread_id);
  }
  await db.db.query("update timers set due_at = now() where kind = 'run.release'");
  return threads;
}

const waiting = async ({ db }: TestEngine): Promise<string[]> =>
  (
    await db.db.query<{ thread_id: string }>("select thread_id from runs where available_at is not null order by seq")
  ).rows.map(({ thread_id }) => thread_id);

test.each([
  ["thread", "select 1 from threads where thread_id = $1 for update"],
  ["timer", "select 1 from timers join runs on run_id = ref_id where thread_id = $1 for update of timers"],
])(
  "the earliest due timer's %s is locked by somebody: the others fire, and it does afterwards",
  async (_what, lock) => {
    await withEngine({ graphs: graphs(), workers: 0 }, async (t) => {
      const [first = "", ...others] = await dueRuns(t, 4);
      let rounds = 0;
      const scheduler = createScheduler(
        { ...t.deps, db: { ...t.deps.db, query: (text, values) => ((rounds += 1), t.deps.db.query(text, values)) } },
        { pollMs: 300 },
      );
      await t.db.db.tx(async (sql) => {
        await sql.query(lock, [first]);
        scheduler.start();
        await until("the others", async () => (await waiting(t)).length === 1);
        expect(others).toHaveLength(3);
        expect(await waiting(t)).toEqual([first]);
        // It polls for what is held, and doesn't spin.
        rounds = 0;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        expect(rounds).toBeLessThan(20);
      });
      await until("the first", async () => (await waiting(t)).length === 0);
      await scheduler.stop();
    });
  },
);

test("a store that hangs holds up what needs it, and no other timer", async () => {
  await withEngine({ graphs: graphs(), workers: 1 }, async (t) => {
    // Threads of stateless runs, with a large body in the store that goes with them.
    for (let n = 0; n < 3; n += 1) await t.client.runs.wait(null, "graph", { input: { log: ["x".repeat(1_200_000)] } });
    await t.db.db.query("update timers set due_at = now() - interval '1 hour' where status = 'due'");
    const threads = await dueRuns(t, 3);
    let release = (): void => {};
    const hang = new Promise<void>((resolve) => (release = resolve));
    let asked = 0;
    const bodies: TestEngine["deps"]["bodies"] = {
      ...t.deps.bodies,
      delete: async (keys) => {
        asked += 1;
        await hang;
        return t.deps.bodies.delete(keys);
      },
    };
    const firing = createFiring({ ...t.deps, bodies }, 50);
    expect(threads).toHaveLength(3);
    await until("the delayed runs", async () => {
      await firing.round();
      return (await waiting(t)).length === 0;
    });
    await until("it is asked for each of them", () => asked === 3);
    release();
    await firing.done();
    const { rows } = await t.db.db.query(
      "select status, count(*)::int as n from timers where kind = 'thread.delete' group by 1",
    );
    expect(rows).toEqual([{ status: "fired", n: 3 }]);
  });
});
