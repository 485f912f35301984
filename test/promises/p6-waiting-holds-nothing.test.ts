// P6: a waiting run holds nothing: no worker slot, no connection, no timer of a process.
import { expect, test } from "vitest";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

test("500 threads wait at gates, one slot: a new run starts within a second, and all 500 can be answered", async () => {
  const acted: string[] = [];
  const graphs = { gate: gateGraph(acted) };
  await withEngine({ graphs, workers: 0, pollMs: 500 }, async ({ client, db, startWorker }) => {
    // One after the other would be most of a minute; the last of them meet the one slot.
    const first = startWorker({ concurrency: 10 });
    const threads = await Promise.all(
      Array.from({ length: 500 }, async () => {
        const { thread_id } = await client.threads.create();
        await client.runs.create(thread_id, "gate", { input: { log: [] } });
        return thread_id;
      }),
    );
    const waiting = async () =>
      (await db.db.query<{ n: number }>("select count(*) as n from approvals where status = 'pending'")).rows[0]?.n;
    await until("most questions", async () => ((await waiting()) ?? 0) > 450, { timeoutMs: 120_000 });
    await first.stop();
    startWorker({ concurrency: 1 });
    await until("500 open questions", async () => (await waiting()) === 500, { timeoutMs: 120_000 });
    const held = await db.db.query<{ n: number }>(
      "select count(*) as n from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
    );
    expect(held.rows[0]?.n).toBe(0);

    const extra = await client.threads.create();
    const run = await client.runs.create(extra.thread_id, "gate", { input: { log: [] } });
    await client.runs.join(extra.thread_id, run.run_id);
    const { rows } = await db.db.query<{ ms: number }>(
      `select extract(epoch from started_at - created_at)::float8 * 1000 as ms from runs where run_id = $1`,
      [run.run_id],
    );
    expect(rows[0]?.ms).toBeLessThan(1_000);

    startWorker({ concurrency: 10 });
    await Promise.all(
      threads.map((thread_id) => client.runs.create(thread_id, "gate", { command: { resume: "yes" } })),
    );
    await until("500 acts", () => acted.length === 500, { timeoutMs: 120_000 });
    expect(await waiting()).toBe(1);
  });
}, 300_000);
