// P3: a worker that lost its lease changes nothing any more.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { note } from "./graphs/journal.js";
import { type CrashSite, withCrashSite } from "./setup.js";

/** What it is stopped for longer than. */
const SHORT_LEASE_MS = 1_500;

/** Everything of a thread and its run that a stale worker could spoil. */
async function everything({ db }: CrashSite, threadId: string): Promise<unknown> {
  const tables = ["runs", "threads", "checkpoints", "checkpoint_writes", "channel_versions", "events", "staged_bodies"];
  const rows: Record<string, unknown> = {};
  for (const table of tables) {
    const { rows: found } = await db.db.query<{ row: unknown }>(
      `select to_jsonb(t) as row from ${table} t where thread_id = $1 order by to_jsonb(t)::text`,
      [threadId],
    );
    rows[table] = found.map(({ row }) => row);
  }
  const { rows: chunks } = await db.db.query(
    `select to_jsonb(c) as row from stream_chunks c join runs using (tenant_id, run_id) where thread_id = $1 order by c.first_id`,
    [threadId],
  );
  return { ...rows, chunks };
}

test("a worker stopped past its lease and woken again changes nothing: all is its successor's", async () => {
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const { thread_id } = await site.client.threads.create();
    // The mover would delete rows meanwhile, which is not what is looked at here.
    const env = { PERDURE_MOVE_AFTER_MS: "3600000" };
    const zombie = site.worker({ ...env, PERDURE_LEASE_MS: String(SHORT_LEASE_MS) });
    const { run_id } = await site.client.runs.create(thread_id, "steps", {
      input: {},
      config: { configurable: { journal: journal.path, step_ms: 150 } },
      streamMode: ["values", "updates", "custom"],
    });
    await until("the middle of the run", () => journal.count("leave s5") > 0, { everyMs: 1 });
    zombie.signal("SIGSTOP");
    const successor = site.worker(env);
    await until(
      "the successor to finish",
      async () => (await site.client.runs.get(thread_id, run_id)).status === "success",
      {
        timeoutMs: SHORT_LEASE_MS + 60_000,
      },
    );
    const before = await everything(site, thread_id);
    const entered = journal.lines().length;
    zombie.signal("SIGCONT");
    await zombie.waitFor(/lease/);
    // The node it was in ends in it; what it tries to store is refused.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await everything(site, thread_id)).toEqual(before);
    expect(journal.lines().length - entered).toBeLessThanOrEqual(2);

    const state = await site.client.threads.getState<{ log: string[] }>(thread_id);
    expect(state.values.log).toEqual(Array.from({ length: 20 }, (_, i) => `s${i + 1}`));
    const { rows } = await site.db.db.query<{ attempts: number[] }>(
      `select array_agg(distinct attempt order by attempt) as attempts from events where run_id = $1 and type = 'run.settled'`,
      [run_id],
    );
    expect(rows[0]?.attempts).toEqual([2]);
    expect(successor.pid).not.toBe(zombie.pid);
  });
}, 120_000);

test("a worker whose loop a graph blocks for too long is taken over, and its late result changes nothing; its log says why", async () => {
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const { thread_id } = await site.client.threads.create();
    const env = { PERDURE_MOVE_AFTER_MS: "3600000", PERDURE_MAX_BLOCK_MS: "1000" };
    const zombie = site.worker({ ...env, PERDURE_LEASE_MS: String(SHORT_LEASE_MS) });
    const { run_id } = await site.client.runs.create(thread_id, "blocking", {
      input: {},
      config: { configurable: { journal: journal.path } },
      streamMode: ["values", "updates"],
    });
    await until("the first attempt", () => journal.count("enter block") === 1);
    site.worker(env);
    const isOver = async () => (await site.client.runs.get(thread_id, run_id)).status === "success";
    await until("the second attempt to end", isOver, { timeoutMs: 60_000 });
    expect(journal.count("leave block")).toBe(1);
    const before = await everything(site, thread_id);
    note("enter let go", { journal: journal.path });
    await zombie.waitFor(/the lease went to another attempt/);
    await until("its node to end", () => journal.count("leave block") === 2);
    expect(await everything(site, thread_id)).toEqual(before);
    expect(zombie.output()).toMatch(/the event loop is blocked: leases are not renewed/);
    // The successor executes it in a process of its own.
    const { values } = await site.client.threads.getState<{ who: number }>(thread_id);
    expect([zombie.pid, undefined]).not.toContain(values.who);
    expect([journal.count("enter block"), journal.count("enter after")]).toEqual([2, 1]);
    const { rows } = await site.db.db.query("select attempt, crashes from runs where run_id = $1", [run_id]);
    expect(rows).toEqual([{ attempt: 2, crashes: 1 }]);
  });
}, 120_000);
