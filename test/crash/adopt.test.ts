// `perdure threads adopt` stopped, killed in the middle of a thread, and run by two processes at once: every thread is there
// once and whole at the end, and none is seen before it is.
import { Annotation, interrupt, StateGraph } from "@langchain/langgraph";
import { v7 as uuidv7 } from "uuid";
import { expect, test } from "vitest";
import type { Db } from "../../src/core/deps.js";
import { createProject } from "../cli/project.js";
import { withEngine } from "../helpers/engine.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { type StockDatabase, withStockDatabase } from "../helpers/stock.js";
import { until } from "../helpers/wait.js";

const SOURCE = `
import { Annotation, interrupt, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ log: Annotation({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
export const graph = new StateGraph(State)
  .addNode("ask", () => ({ log: [interrupt({ question: "go on?" })] }))
  .addEdge("__start__", "ask");
`;
const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const askingGraph = () =>
  new StateGraph(State)
    .addNode("ask", () => ({ log: [String(interrupt({ question: "go on?" }))] }))
    .addEdge("__start__", "ask")
    .compile();

const SMALL = Number(process.env["PERDURE_TEST_ADOPT_THREADS"] ?? 24);
const LARGE = 320;
const large = "ffffffff-0000-7000-8000-000000000001";
const LEASE_MS = 15_000;

type Summary = Record<"threads" | "adopted" | "already" | "failed" | "checkpoints" | "equal" | "unequal", number>;
type Line = { source_thread_id: string; outcome: string; summary?: Summary };

/** One thread of a real run that asks, many like it, and a long one. */
async function fill({ saver, change }: StockDatabase): Promise<void> {
  const first = uuidv7();
  const graph = askingGraph();
  graph.checkpointer = saver;
  await graph.invoke({ log: ["in"] }, { configurable: { thread_id: first } });
  for (const [table, columns] of [
    ["checkpoints", "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"],
    ["checkpoint_blobs", "checkpoint_ns, channel, version, type, blob"],
    ["checkpoint_writes", "checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob"],
  ] as const) {
    await change(
      `insert into ${table} (thread_id, ${columns})
      select '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), ${columns}
      from ${table}, generate_series(1, $2::int) n
      where thread_id = $1`,
      [first, SMALL - 1],
    );
  }
  const id = (n: string) => `'00000000-0000-6000-8000-' || lpad(to_hex(${n}), 12, '0')`;
  await change(
    `insert into checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    select $1, ${id("n")}, case when n > 1 then ${id("n - 1")} end,
      jsonb_build_object('v', 4, 'id', ${id("n")}, 'ts', '2026-01-01T00:00:00.000Z', 'versions_seen', '{}'::jsonb,
        'channel_versions', jsonb_build_object('log', n)),
      jsonb_build_object('source', 'loop', 'step', n, 'parents', '{}'::jsonb)
    from generate_series(1, $2::int) n`,
    [large, LARGE],
  );
  await change(
    `insert into checkpoint_blobs (thread_id, channel, version, type, blob)
    select $1, 'log', n::text, 'json', convert_to(to_jsonb(array_fill('line'::text, array[n]))::text, 'UTF8')
    from generate_series(1, $2::int) n`,
    [large, LARGE],
  );
}

/** Where the command waits while a test holds the lock: before it begins another small thread, at the end of the long one. */
const HELD = { next: 1, long: 2 } as const;

async function holdable(db: Db): Promise<void> {
  await db.query(
    `create function hold() returns trigger language plpgsql as $$
    begin
      perform pg_advisory_xact_lock_shared(tg_argv[0]::int);
      return new;
    end $$`,
  );
  const few = "00000000-0000-7000-8000-000000000004";
  for (const [table, which, lock] of [
    ["threads", `new.thread_id > '${few}' and new.thread_id < '${large}'`, HELD.next],
    ["events", `new.thread_id = '${large}'`, HELD.long],
  ] as const) {
    await db.query(
      `create trigger hold before insert on ${table} for each row when (${which}) execute function hold(${lock})`,
    );
  }
}

const linesOf = (process: TestProcess): Line[] =>
  process
    .stdout()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
const summaryOf = (process: TestProcess): Summary => linesOf(process).at(-1)!.summary!;

test("threads are adopted once and whole, though the command is stopped, killed, and run twice at once", async () => {
  const cwd = await createProject({ "graph.ts": SOURCE });
  const bodies = `file://${cwd}/bodies`;
  await withStockDatabase(async (stock) => {
    await fill(stock);
    const fingerprint = await stock.fingerprint();
    await withEngine(
      { graphs: { agent: askingGraph() }, bodies, leaseMs: LEASE_MS },
      async ({ db: { db, url }, client }) => {
        const start = () =>
          startProcess(["threads", "adopt", "--from", stock.from, "--json"], {
            cwd,
            env: { DATABASE_URL: url, PERDURE_BODIES: bodies, PERDURE_LEASE_MS: String(LEASE_MS) },
          });
        const visible = async () => (await db.query("select 1 from threads where not ephemeral")).rowCount;

        await holdable(db);
        const whileHeld = (lock: number, work: () => Promise<void>) =>
          db.tx(async (sql) => {
            await sql.query("select pg_advisory_xact_lock($1::int)", [lock]);
            await work();
          });

        const stopped = start();
        await whileHeld(HELD.next, async () => {
          await stopped.waitFor(/"outcome":"adopted"/);
          stopped.signal("SIGINT");
        });
        expect((await stopped.exited).code).toBe(1);
        expect(stopped.output()).toContain("stopped; the same command goes on from here");
        const before = summaryOf(stopped);
        expect(await visible()).toBe(before.adopted);
        expect(before.adopted).toBeLessThan(SMALL);

        const half = async () =>
          (await db.query("select 1 from checkpoints where thread_id = $1 limit 1", [large])).rowCount > 0;
        await whileHeld(HELD.long, async () => {
          const killed = start();
          await until("the long thread is half there", half, { everyMs: 5 });
          await killed.kill();
        });
        // As if the time had passed after which it is given to others.
        await db.query("update runs set lease_expires_at = clock_timestamp() where status = 'running'");
        expect((await db.query("select ephemeral from threads where thread_id = $1", [large])).rows).toEqual([
          { ephemeral: true },
        ]);
        await expect(client.threads.get(large)).rejects.toThrow("404");
        expect(await client.threads.search({ ids: [large] })).toEqual([]);

        const both = [start(), start()] as const;
        for (const process of both)
          expect([(await process.exited).code, process.output().slice(-600)]).toEqual([0, expect.any(String)]);
        const sums = both.map(summaryOf);
        for (const sum of sums)
          expect(sum).toMatchObject({ threads: SMALL + 1, failed: 0, unequal: 0, equal: sum.checkpoints });
        const { rows } = await db.query(
          "select count(*) as n, count(distinct thread_id) as threads from runs where status = 'success'",
        );
        expect(rows).toEqual([{ n: SMALL + 1, threads: SMALL + 1 }]);
        expect(sums[0]!.adopted + sums[1]!.adopted + sums[0]!.already + sums[1]!.already).toBe(2 * (SMALL + 1));

        const kept = await db.query(
          `select count(*) as n, count(distinct (thread_id, checkpoint_id)) as ids from checkpoints`,
        );
        const counts = (await stock.db.query(`select count(*) as n from "the app".checkpoints`)).rows as [
          { n: number },
        ];
        expect(kept.rows).toEqual([{ n: counts[0].n, ids: counts[0].n }]);
        const order = await db.query(
          "select array_agg(step order by seq) as steps from checkpoints where thread_id = $1",
          [large],
        );
        expect(order.rows).toEqual([{ steps: Array.from({ length: LARGE }, (_, i) => i + 1) }]);
        expect(await visible()).toBe(SMALL + 1);
        expect(await stock.fingerprint()).toBe(fingerprint);
        const [asking] = await client.threads.search({ status: "interrupted", limit: 1 });
        await client.runs.wait(asking!.thread_id, "agent", { command: { resume: "yes" } });
        expect((await client.threads.getState<{ log: string[] }>(asking!.thread_id)).values.log).toEqual(["in", "yes"]);
      },
    );
  });
});
