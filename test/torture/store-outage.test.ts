// P15: the object store is away under load: runs go on and end, nothing is lost, and afterwards everything moves.
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { afterAll, expect, test } from "vitest";
import type { BodyStore } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { withEngine } from "../helpers/engine.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const OUTAGE_MS = size(3_000, 60_000);
const CLIENTS = 3;

const folder = await mkdtemp(path.join(os.tmpdir(), "perdure-outage-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Every operation fails as that of a store nobody answers for, a while after it was tried. */
function breakable(store: BodyStore): Readonly<{ setAway(away: boolean): void; refused(): number }> {
  let isAway = false;
  let refused = 0;
  const through = <Args extends unknown[], T>(operation: (...args: Args) => Promise<T>) => {
    return async (...args: Args): Promise<T> => {
      if (!isAway) return operation(...args);
      refused += 1;
      await sleep(50);
      throw new EngineError("unavailable", "The object store doesn't answer.");
    };
  };
  const { create, read } = store;
  const [remove, list] = [store.delete, store.list];
  Object.assign(store, {
    create: through(create),
    read: through(read),
    delete: through(remove),
    async *list(prefix: string) {
      await through(async () => undefined)();
      yield* list(prefix);
    },
  });
  return { setAway: (away) => (isAway = away), refused: () => refused };
}

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const small = (n: number) => `small ${n} `.padEnd(2_000, "s");
const large = (n: number) => `large ${n} `.padEnd(1_200_000, "l");

const graph = new StateGraph(Log)
  .addNode("small", ({ log }) => ({ log: [small(log.length)] }))
  .addNode("large", ({ log }) => ({ log: [large(log.length)] }))
  .addEdge(START, "small")
  .addEdge("small", "large")
  .addEdge("large", END)
  .compile();

test(
  `the store is away for ${OUTAGE_MS / 1_000} s under load: no run fails, nothing is lost, the backlog drains`,
  async () => {
    await withEngine({ graphs: { graph }, bodies: pathToFileURL(folder).href, leaseMs: 15_000 }, async (t) => {
      const { client, deps, db } = t;
      const store = breakable(deps.bodies);
      const expected = new Map<string, string[]>();
      let done = 0;
      let over = false;
      const clients = Array.from({ length: CLIENTS }, async () => {
        while (!over) {
          const { thread_id } = await client.threads.create();
          const asked = `asked of ${thread_id}`;
          expected.set(thread_id, [asked, small(1), large(2)]);
          const { run_id } = await client.runs.create(thread_id, "graph", { input: { log: [asked] } });
          // A state whose bodies are in the store can't be read while that is away; the run ends all the same.
          await client.runs.join(thread_id, run_id).catch((error: unknown) => {
            if ((error as { status?: number }).status !== 503) throw error;
          });
          await until("the run to end", async () => (await client.runs.get(thread_id, run_id)).status === "success");
          done += 1;
        }
      });
      const moving = (async () => {
        while (!over) {
          await t.move();
          await sleep(100);
        }
      })();
      try {
        await until("the first runs", () => done > 0, { timeoutMs: 60_000 });
        store.setAway(true);
        const before = done;
        await sleep(OUTAGE_MS);
        const needed = () => store.refused() > 3 && done > before + CLIENTS;
        await until("runs that had needed the store", needed, { timeoutMs: 60_000 });
      } finally {
        store.setAway(false);
        over = true;
        await Promise.all([...clients, moving]);
      }

      const { rows: ends } = await db.db.query("select status, attempt, count(*)::int as n from runs group by 1, 2");
      expect(ends).toEqual([{ status: "success", attempt: 1, n: done }]);
      const due = "select 1 from timers where kind = 'move' and status = 'due'";
      for (let rounds = 0; (await db.db.query(due)).rowCount > 0; rounds += 1) {
        expect(rounds).toBeLessThan(1_000);
        await db.db.query("update timers set due_at = now() where kind = 'move' and status = 'due'");
        await t.move();
      }
      await sweepOrphans(deps, { graceMs: 0 });
      expect((await db.db.query("select 1 from staged_bodies")).rowCount).toBe(0);
      const { rows: packs } = await db.db.query<{ key: string; status: string }>("select key, status from packs");
      expect(new Set(packs.map(({ status }) => status))).toEqual(new Set(["stored"]));
      const objects: string[] = [];
      for await (const key of deps.bodies.list("")) objects.push(key);
      expect(objects.sort()).toEqual(packs.map(({ key }) => key).sort());
      for (const [threadId, log] of expected) {
        expect(((await client.threads.getState(threadId)).values as { log: string[] }).log).toEqual(log);
      }
    });
  },
  SOAK_MS,
);
