// Crons under schedulers that die and stand still: one run for each time, whoever goes on, and none after a delete has returned.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { echo } from "../helpers/schedules.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("scheduler.mjs", import.meta.url));

async function schedulers(t: TestEngine, count: number): Promise<TestProcess[]> {
  const env = { DATABASE_URL: t.db.url, POLL_MS: "100" };
  const started = Array.from({ length: count }, () => startProcess([], { script: SCRIPT, env }));
  await Promise.all(started.map((process) => process.waitFor("ready")));
  return started;
}

const count = async ({ db }: TestEngine, from: string): Promise<number> =>
  (await db.db.query<{ n: number }>(`select count(*)::int as n from ${from}`)).rows[0]?.n ?? 0;

/** As if it were so many minutes later for every cron. */
const later = ({ db }: TestEngine, minutes: number) =>
  db.db.query(
    `with moved as (
      update crons set next_at = date_trunc('minute', now()) - make_interval(mins => $1 - 1) where enabled returning cron_id)
    update timers set due_at = now() where kind = 'cron' and status = 'due'`,
    [minutes],
  );
const looked = (t: TestEngine) =>
  until("all have been looked at", async () => (await count(t, "crons where next_at <= now()")) === 0);

it("J2: one run for a time, though the one that makes it is killed, all stand still over a time, and the same time is looked at again", async () => {
  await withEngine({ graphs: { agent: echo() }, workers: 1, concurrency: 10 }, async (t) => {
    const many = 20;
    const make = () => t.client.crons.create("agent", { schedule: "* * * * *", input: { messages: [] } });
    const ids = await Promise.all(Array.from({ length: many }, async () => (await make()).cron_id));
    const [victim, ...others] = await schedulers(t, 3);
    await later(t, 1);
    await until("some are made", async () => (await count(t, "cron_firings")) > 2, { everyMs: 2 });
    await victim?.kill();
    await looked(t);
    // Nobody looks for two minutes: the last of the times that were missed comes once, and the others are told.
    for (const process of others) process.signal("SIGSTOP");
    await later(t, 3);
    for (const process of others) process.signal("SIGCONT");
    await looked(t);
    await later(t, 1);
    await looked(t);
    const fired = await count(t, "cron_firings where status = 'fired'");
    expect(fired).toBeGreaterThanOrEqual(many);
    expect(await count(t, "runs where metadata ? 'cron_id'")).toBe(fired);
    const twice = `(select cron_id, date_trunc('minute', occurrence_at) from cron_firings where status = 'fired' group by 1, 2 having count(*) > 1) x`;
    expect(await count(t, twice)).toBe(0);
    expect(
      await count(t, "cron_firings where status = 'fired' and occurrence_at <> date_trunc('minute', occurrence_at)"),
    ).toBe(0);

    await later(t, 1);
    await t.db.db.query("update cron_firings set occurrence_at = occurrence_at - interval '1 hour'");
    await Promise.all(
      ids.map(async (id) => {
        await t.client.crons.delete(id);
        const made = () => count(t, `cron_firings where cron_id = '${id}'`);
        const then = await made();
        await new Promise((resolve) => setTimeout(resolve, 500));
        expect(await made()).toBe(then);
      }),
    );
    expect(await count(t, "timers where kind = 'cron' and status = 'due'")).toBe(0);
    await Promise.all(others.map((process) => process.stop()));
  });
}, 120_000);

it("J3: of two hundred that are due at once after an outage a few run at a time, each once, and conversations begin at once", async () => {
  const pollMs = 500;
  await withEngine({ graphs: { agent: echo() }, workers: 1, concurrency: 10, pollMs }, async (t) => {
    const many = 200;
    const { cron_id: id } = await t.client.crons.create("agent", { schedule: "0 * * * *", input: { messages: [] } });
    await t.db.db.query(
      `insert into crons (tenant_id, cron_id, assistant_id, on_run_completed, schedule, enabled, payload, run, next_at)
      select tenant_id, gen_random_uuid(), assistant_id, 'keep', schedule, true, payload, run, next_at
      from crons, generate_series(2, $1) where cron_id = $2`,
      [many, id],
    );
    await t.db.db.query("update crons set next_at = date_trunc('hour', now()) - interval '3 hours'");
    await t.db.db.query("delete from timers where kind = 'cron'");
    await t.db.db.query(
      "insert into timers (tenant_id, timer_id, kind, ref_id, due_at) select tenant_id, gen_random_uuid(), 'cron', cron_id, next_at from crons",
    );
    const two = await schedulers(t, 2);
    const waits: number[] = [];
    let most = 0;
    await until(
      "all have run",
      async () => {
        most = Math.max(most, await count(t, "runs where status in ('pending', 'running') and metadata ? 'cron_id'"));
        const { thread_id } = await t.client.threads.create();
        const { run_id } = await t.client.runs.create(thread_id, "agent", {
          input: { messages: [{ type: "human", content: "hi" }] },
        });
        const started = async () =>
          (
            await t.db.db.query<{ ms: number | null }>(
              "select extract(epoch from started_at - created_at)::float8 * 1000 as ms from runs where run_id = $1",
              [run_id],
            )
          ).rows[0]?.ms;
        waits.push(Number(await until("it starts", started, { everyMs: 20 })));
        return (await count(t, "runs where status = 'success' and metadata ? 'cron_id'")) === many;
      },
      { everyMs: 300, timeoutMs: 100_000 },
    );
    expect(await count(t, "cron_firings where status = 'fired'")).toBe(many);
    expect(await count(t, "cron_firings where status = 'missed'")).toBe(many);
    expect(most).toBeLessThanOrEqual(5);
    expect(Math.max(...waits)).toBeLessThan(2 * pollMs);
    await Promise.all(two.map((process) => process.stop()));
  });
}, 150_000);
