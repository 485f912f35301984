// Schedulers that die: each occurrence is made and fired once, whoever goes on, and conversations don't wait for it.
// PERDURE_SOAK=1: with 10,000 follow-ups, 1,000 of one moment, and 200 schedules.
import { fileURLToPath } from "node:url";
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { composeLoops, type Running } from "../../src/compose-loops.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { addFollowups, addPeople, addSchedule, contactId } from "../helpers/outreach.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { echo } from "../helpers/schedules.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("scheduler.mjs", import.meta.url));
const SOAK = process.env.PERDURE_SOAK !== undefined;
const graphs = { agent: echo() };

/** Started, and ready. */
async function schedulers({ engine }: TestEngine, url: string, count: number, env = {}): Promise<TestProcess[]> {
  expect(engine.graphs.ids).toContain("agent");
  const started = Array.from({ length: count }, () =>
    startProcess([], { script: SCRIPT, env: { DATABASE_URL: url, ...env } }),
  );
  await Promise.all(started.map((process) => process.waitFor("ready")));
  return started;
}

const count = async ({ deps }: TestEngine, from: string): Promise<number> =>
  (await deps.db.query<{ n: number }>(`select count(*)::int as n from ${from}`)).rows[0]?.n ?? 0;

it("90, 60 and 30 days before: with schedulers killed in the middle each gets each of theirs once, and who said no gets none", async () => {
  const people = SOAK ? 3_000 : 800;
  await withEngine({ graphs, workers: 0 }, async (t) => {
    // Three of four have their date 90, 60 or 30 days from today; of them, every tenth has said no, and every tenth marketing is not for.
    await addPeople(
      t.db.db,
      people,
      `jsonb_build_object('end', ((now() at time zone 'UTC')::date + (array[90, 60, 30, 45])[1 + n % 4])::text)`,
    );
    await t.db.db.query(
      "insert into suppressions (tenant_id, suppression_id, contact_key, scope, cause) select 'default', gen_random_uuid(), key, 'all', 'stop' from contacts where key::int % 10 = 0",
    );
    await t.db.db.query("update contacts set opted_in_at = now(), opt_in_source = 'form' where key::int % 10 <> 1");
    const relative = { attribute: "end", days_before: [90, 60, 30] };
    const id = await addSchedule(t.db.db, {
      ...{ kind: "relative", cron: "0 0 * * *", relative, purpose: "marketing" },
      occurrence: new Date().toISOString().slice(0, 10),
    });
    const all = "followups where status <> 'skipped'";
    for (const share of SOAK ? [1, 400, 900, 1_400] : [1, 250]) {
      const [victim] = (await schedulers(t, t.db.url, 1)) as [TestProcess];
      await until(`${share} are made`, async () => (await count(t, all)) >= share, { everyMs: 2 });
      await victim.kill();
    }
    expect(await count(t, `schedule_firings where status = 'firing' and done_to is not null`)).toBeLessThanOrEqual(1);
    const two = await schedulers(t, t.db.url, 2);
    await until(
      "all of it is fired",
      async () =>
        (await count(t, "followups where status = 'pending'")) === 0 &&
        (await count(t, "schedule_firings where status = 'firing'")) === 0,
    );
    await Promise.all(two.map((process) => process.stop()));
    const wanted = Array.from({ length: people }, (_, n) => n + 1).filter((n) => n % 4 !== 3);
    const gets = wanted.filter((n) => n % 10 > 1);
    const { rows } = await t.deps.db.query<{ n: number; runs: number; status: string }>(
      `select p.key::int as n, f.status, (select count(*)::int from runs r where r.followup_id = f.followup_id) as runs
      from followups f join contacts p on p.contact_id = f.recipient
      where f.schedule_id = $1 order by 1`,
      [id],
    );
    expect(rows.map(({ n }) => n)).toEqual(wanted);
    expect(rows.filter(({ runs }) => runs === 1).map(({ n }) => n)).toEqual(gets);
    expect(rows.filter(({ runs }) => runs > 1)).toEqual([]);
    expect(rows.filter(({ status, n }) => (status === "skipped") !== !gets.includes(n))).toEqual([]);
  });
}, 300_000);

it("an occurrence is one however many look and die; one that was deleted when it was due makes nothing any more", async () => {
  await withEngine({ graphs, workers: 0 }, async (t) => {
    await addPeople(t.db.db, 5);
    for (let n = 0; n < 20; n += 1) await addSchedule(t.db.db, { cron: "* * * * *" });
    const three = await schedulers(t, t.db.url, 3);
    await until("it begins", async () => (await count(t, "followups")) > 0, { everyMs: 2 });
    await three[0]?.kill();
    await until("all are fired", async () => (await count(t, "followups where status = 'running'")) >= 100);
    // The same minute again, as if one had looked and not been heard.
    await t.db.db.query("update schedules set next_at = (select max(occurrence_at) from schedule_firings)");
    await t.db.db.query("update timers set due_at = now() where kind = 'schedule.fire' and status = 'due'");
    await until(
      "they have looked",
      async () => (await count(t, "timers where kind = 'schedule.fire' and status = 'due' and due_at <= now()")) === 0,
    );
    const { rows } = await t.deps.db.query(
      "select schedule_id, recipient, occurrence_at from followups group by 1, 2, 3 having count(*) > 1",
    );
    expect(rows).toEqual([]);
    expect(await count(t, "(select followup_id from runs group by 1 having count(*) > 1) twice")).toBe(0);
    const { rows: ids } = await t.deps.db.query<{ id: string }>("select schedule_id as id from schedules");
    await t.db.db.query("update timers set due_at = now() where kind = 'schedule.fire' and status = 'due'");
    await Promise.all(ids.map(async ({ id }) => t.app.request(`/v1/schedules/${id}`, { method: "DELETE" })));
    const runs = await count(t, "runs");
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect([await count(t, "runs"), await count(t, "followups where status = 'pending'")]).toEqual([runs, 0]);
    await Promise.all(three.slice(1).map((process) => process.stop()));
  });
}, 120_000);

it(`${SOAK ? "10,000" : "200"} follow-ups due at once, three schedulers, two killed: each is fired once, and conversations go on`, async () => {
  const many = SOAK ? 10_000 : 200;
  const pollMs = 2_000;
  await withEngine({ graphs, workers: 1, concurrency: 10, pollMs }, async (t) => {
    await addPeople(t.db.db, many);
    await addFollowups(t.db.db, many, 0);
    const three = await schedulers(t, t.db.url, 3, { POLL_MS: String(pollMs) });
    const fired = "timers where kind = 'followup' and status = 'fired'";
    const waits: number[] = [];
    const converse = async (): Promise<void> => {
      const { thread_id } = await t.client.threads.create();
      const { run_id } = await t.client.runs.create(thread_id, "agent", {
        input: { messages: [{ type: "human", content: "hi" }] },
      });
      const row = () =>
        t.deps.db.query<{ ms: number | null }>(
          "select extract(epoch from started_at - created_at)::float8 * 1000 as ms from runs where run_id = $1",
          [run_id],
        );
      waits.push(Number(await until("it starts", async () => (await row()).rows[0]?.ms, { everyMs: 50 })));
    };
    for (const share of [0.2, 0.5]) {
      await until(`${share} of them`, async () => (await count(t, fired)) >= many * share, { timeoutMs: 600_000 });
      await three[share === 0.2 ? 0 : 1]?.kill();
      await converse();
    }
    await until(
      "all are told",
      async () => {
        await converse();
        return (await count(t, "followups where status = 'produced'")) === many;
      },
      { timeoutMs: 900_000, everyMs: 500 },
    );
    await three[2]?.stop();
    expect(
      await count(
        t,
        "(select followup_id from runs where followup_id is not null group by 1 having count(*) = 1) once",
      ),
    ).toBe(many);
    expect(await count(t, "runs where followup_id is not null and status <> 'success'")).toBe(0);
    console.log(`interactive runs waited for up to ${Math.round(Math.max(...waits))} ms, ${waits.length} of them`);
    expect(Math.max(...waits)).toBeLessThan(2 * pollMs);
  });
}, 1_800_000);

it.each([
  ["thread", "threads where thread_id in (select thread_id from followups order by fire_at, followup_id limit 1)"],
  [
    "timer",
    "timers where kind = 'followup' and ref_id in (select followup_id from followups order by fire_at, followup_id limit 1)",
  ],
  ["row", "followups where followup_id in (select followup_id from followups order by fire_at, followup_id limit 1)"],
])(
  "the earliest follow-up's %s is locked by another session: the others fire within a poll, and it does afterwards",
  async (_, rows) => {
    await withEngine({ graphs, workers: 0, pollMs: 1_000 }, async (t) => {
      await addPeople(t.db.db, 20);
      await addFollowups(t.db.db, 20, 0);
      await t.db.db.query(
        "update followups set fire_at = fire_at - interval '1 min' where followup_id in (select followup_id from followups limit 1)",
      );
      await t.db.db.query("update timers set due_at = fire_at from followups where ref_id = followup_id");
      const [scheduler] = composeLoops(t.engine, ["scheduler"], { concurrency: 1 }) as [Running];
      await t.db.db.tx(async (sql) => {
        await sql.query(`select 1 from ${rows} for update`);
        scheduler.start();
        await until("the others", async () => (await count(t, "runs")) === 19, { timeoutMs: 10_000 });
      });
      await until("the first", async () => (await count(t, "runs")) === 20);
      await scheduler.stop();
    });
  },
);

it(`without notifications ${SOAK ? "1,000" : "200"} due at one moment: none early, and all within a poll`, async () => {
  const many = SOAK ? 1_000 : 200;
  const pollMs = 2_000;
  await withEngine({ graphs, workers: 0 }, async (t) => {
    await addPeople(t.db.db, many);
    const two = await schedulers(t, t.db.url, 2, { POLL_MS: String(pollMs), NOTIFY: "off" });
    await addFollowups(t.db.db, many, 3_000);
    await until(
      "all are fired",
      async () => (await count(t, "timers where kind = 'followup' and status = 'fired'")) === many,
    );
    await Promise.all(two.map((process) => process.stop()));
    const { rows } = await t.deps.db.query<{ early: number; last: number }>(
      `select min(extract(epoch from t.updated_at - t.due_at))::float8 * 1000 as early,
        max(extract(epoch from t.updated_at - t.due_at))::float8 * 1000 as last
      from timers t where kind = 'followup'`,
    );
    console.log(
      `fired ${Math.round(rows[0]?.early ?? -1)} to ${Math.round(rows[0]?.last ?? -1)} ms after they were due`,
    );
    expect(rows[0]?.early).toBeGreaterThanOrEqual(0);
    // A poll with its jitter.
    expect(rows[0]?.last).toBeLessThan(pollMs * 1.2);
  });
}, 120_000);

it(`${SOAK ? 200 : 20} schedules due together after three hours: each catches up once, at a pace that leaves room for conversations`, async () => {
  const many = SOAK ? 200 : 20;
  const pollMs = 500;
  const busy = new Set<unknown>();
  let most = 0;
  const slow = new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => {
      const last = messages.at(-1);
      if (last?.additional_kwargs["followup"] === true) {
        busy.add(last);
        most = Math.max(most, busy.size);
        await new Promise((resolve) => setTimeout(resolve, 300));
        busy.delete(last);
      }
      return { messages: [new AIMessage("done")] };
    })
    .addEdge(START, "model")
    .addEdge("model", END)
    .compile();
  await withEngine({ graphs: { agent: slow }, workers: 1, concurrency: 10, pollMs }, async (t) => {
    await addPeople(t.db.db, many);
    const threeHoursAgo = new Date(Date.now() - 3 * 3_600_000).toISOString();
    for (let n = 1; n <= many; n += 1) {
      const audience = { contacts: [contactId(n)] };
      const late = { cron: "0 * * * *", mode: "work", catchup: "latest", overlap: "skip", occurrence: threeHoursAgo };
      await addSchedule(t.db.db, { ...late, audience });
    }
    const [scheduler] = composeLoops(t.engine, ["scheduler"], { concurrency: 1 }) as [Running];
    scheduler.start();
    const waits: number[] = [];
    await until(
      "all are told",
      async () => {
        const { thread_id } = await t.client.threads.create();
        await t.client.runs.wait(thread_id, "agent", { input: { messages: [{ type: "human", content: "hi" }] } });
        const { rows } = await t.deps.db.query<{ ms: number }>(
          "select extract(epoch from started_at - created_at)::float8 * 1000 as ms from runs where thread_id = $1",
          [thread_id],
        );
        waits.push(Number(rows[0]?.ms));
        return (await count(t, "followups where status = 'produced'")) === many;
      },
      { timeoutMs: 200_000, everyMs: 100 },
    );
    await scheduler.stop();
    expect(most).toBeLessThanOrEqual(5);
    expect(most).toBeGreaterThan(1);
    expect(Math.max(...waits)).toBeLessThan(2 * pollMs);
    const { rows } = await t.deps.db.query<{ status: string; n: number; times: number }>(
      "select status, count(*)::int as n, min(times) as times from schedule_firings group by 1 order by 1",
    );
    expect(rows).toEqual([
      { status: "fired", n: many, times: 1 },
      { status: "missed", n: many, times: expect.any(Number) as number },
    ]);
    expect(rows[1]?.times).toBeGreaterThanOrEqual(2);
  });
}, 300_000);
