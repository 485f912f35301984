// P1: an accepted run is never lost: its worker dies after the claim, before anything was stored or while the first
// checkpoint is on its way, and it executes elsewhere with the input, config and metadata it was created with.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { type CrashSite, type Journal, withCrashSite } from "./setup.js";

const SENT = { text: "what was asked" };

async function create({ client }: CrashSite, journal: Journal, settings: Readonly<Record<string, unknown>>) {
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, "late", {
    input: SENT,
    config: { tags: ["mine"], configurable: { journal: journal.path, color: "blue", ...settings } },
    metadata: { owner: "ada" },
  });
  return { thread_id, run_id };
}

async function expectDoneAsAsked(site: CrashSite, run: Readonly<{ thread_id: string; run_id: string }>) {
  const { client, db } = site;
  const get = () => client.runs.get(run.thread_id, run.run_id);
  await until("the run to end", async () => (await get()).status === "success", { timeoutMs: 60_000 });
  const { values } = await client.threads.getState<{ seen: unknown }>(run.thread_id);
  expect(values).toEqual({ ...SENT, seen: { ...SENT, color: "blue", owner: "ada", tags: ["mine"] } });
  expect((await get()).metadata).toMatchObject({ owner: "ada" });
  const history = await client.threads.getHistory(run.thread_id);
  expect(history.map(({ metadata }) => metadata?.["source"])).toEqual(["loop", "loop", "input"]);
  const { rows } = await db.db.query<{ attempt: number; crashes: number }>(
    "select attempt, crashes from runs where run_id = $1",
    [run.run_id],
  );
  return rows[0];
}

test("a worker dies between the claim and the first checkpoint: another executes what was asked, once", async () => {
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const first = site.worker();
    const run = await create(site, journal, { kill: true });
    await until("the worker to be dead", () => journal.count("killed") === 1);
    await first.exited;
    const { rows } = await site.db.db.query("select 1 from checkpoints where thread_id = $1", [run.thread_id]);
    expect(rows).toEqual([]);
    // What the client may ask meanwhile.
    expect((await site.client.runs.get(run.thread_id, run.run_id)).status).toBe("running");
    expect((await site.client.threads.get(run.thread_id)).status).toBe("busy");
    await site.expire(first);
    site.worker();
    expect(await expectDoneAsAsked(site, run)).toEqual({ attempt: 2, crashes: 1 });
    expect(journal.count("enter look")).toBe(1);
  });
}, 120_000);

test("a worker dies while its first checkpoint is on its way: stored or not, there is one input checkpoint", async () => {
  await withCrashSite(async (site) => {
    const { db } = site.db;
    for (const arrives of [true, false]) {
      const journal = site.journal();
      const first = site.worker();
      const run = await db.tx(async (sql) => {
        // Whoever writes a checkpoint now waits for this transaction.
        await sql.query("lock table checkpoints in share mode");
        const created = await create(site, journal, {});
        const waiting = async () => {
          const { rows } = await db.query<{ pid: number }>(
            // Clones of one template: in the others' databases that table has the same number.
            `select pid from pg_locks
            where relation = 'checkpoints'::regclass and not granted
              and database = (select oid from pg_database where datname = current_database())`,
          );
          return rows[0]?.pid;
        };
        const pid = await until("the commit to be on its way", waiting);
        await first.kill();
        // Postgres goes on with a statement whose client is gone, unless it is told not to.
        if (!arrives) await db.query("select pg_cancel_backend($1)", [pid]);
        return created;
      });
      await site.expire(first);
      const second = site.worker();
      const ended = await expectDoneAsAsked(site, run);
      expect(ended?.attempt).toBe(2);
      expect(journal.count("enter look")).toBe(1);
      await second.kill();
    }
  });
}, 120_000);
