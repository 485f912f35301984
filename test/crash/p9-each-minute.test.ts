// A schedule of each minute, and three schedulers: whoever of them is killed or stands still, there is one run for each due time. One that is
// deleted when it is due leaves a run or none, and makes none when the call has returned.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { withMovableClock } from "../../src/testing/clock.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { addPeople, addSchedule } from "../helpers/outreach.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { echo } from "../helpers/schedules.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("scheduler.mjs", import.meta.url));
const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;
const GATE = 7_264_861;
const DELETED = 12;

it("the one about to write is killed, the others stand still for 90 s over a due minute: one run for each due time, the late one too", async () => {
  await withEngine({ graphs: { agent: echo() }, workers: 0, movable: true }, async (t) => {
    await addPeople(t.db.db, 1);
    const first = new Date(Math.ceil((Date.now() + 30 * SECOND_MS) / MINUTE_MS) * MINUTE_MS);
    const schedule = { cron: "* * * * *", catchup: "latest", occurrence: first.toISOString() };
    const id = await addSchedule(t.db.db, schedule);
    await holdBack(t);
    const three = Array.from({ length: 3 }, () => begin(t));
    await Promise.all(three.map((each) => each.waitFor("ready")));

    let victim = 0;
    await t.db.db.tx(async (sql) => {
      await sql.query("select pg_advisory_xact_lock($1)", [GATE]);
      await to(t, first);
      victim = await until("one is about to write", () => whoWaits(t));
      await three.find(({ pid }) => pid === victim)?.kill();
    });
    await until("another has written", async () => (await runs(t, id)) === 1);

    const others = three.filter(({ pid }) => pid !== victim);
    expect(others).toHaveLength(2);
    await to(t, new Date(first.getTime() + 10 * SECOND_MS));
    for (const each of others) each.signal("SIGSTOP");
    await t.advance(90 * SECOND_MS);
    await new Promise((resolve) => setTimeout(resolve, SECOND_MS));
    expect(await runs(t, id)).toBe(1);
    for (const each of others) each.signal("SIGCONT");
    const fresh = begin(t);
    await fresh.waitFor("ready");
    await until("the late one is made", async () => (await runs(t, id)) === 2);
    await to(t, new Date(first.getTime() + 2 * MINUTE_MS));
    await until("the next is made at its time", async () => (await runs(t, id)) === 3);

    const { rows } = await t.deps.db.query<{ at: Date; n: number }>(
      `select f.occurrence_at as at, (select count(*)::int from runs r where r.followup_id = f.followup_id) as n
      from followups f
      where f.schedule_id = $1
      order by 1`,
      [id],
    );
    const due = [0, 1, 2].map((minutes) => ({ at: new Date(first.getTime() + minutes * MINUTE_MS), n: 1 }));
    expect(rows).toEqual(due);
    const firings = (await (await t.app.request(`/v1/schedules/${id}/firings`)).json()) as { status: string }[];
    expect(firings.map(({ status }) => status)).toEqual(["fired", "fired", "fired"]);

    await deletedWhenDue(t, new Date(first.getTime() + 3 * MINUTE_MS));
    await Promise.all([...others, fresh].map((each) => each.stop()));
  });
});

async function deletedWhenDue(t: TestEngine, at: Date): Promise<void> {
  const schedule = { cron: "* * * * *", occurrence: at.toISOString() };
  const ids = [];
  for (let n = 0; n < DELETED; n += 1) ids.push(await addSchedule(t.db.db, schedule));
  await to(t, at);
  const left = await Promise.all(
    ids.map(async (id, n) => {
      // Some before anybody has looked, some in the middle, some after.
      await new Promise((resolve) => setTimeout(resolve, 40 * n));
      expect((await t.app.request(`/v1/schedules/${id}`, { method: "DELETE" })).status).toBe(204);
      return runs(t, id);
    }),
  );
  await t.advance(2 * MINUTE_MS);
  await new Promise((resolve) => setTimeout(resolve, SECOND_MS));
  expect(await Promise.all(ids.map((id) => runs(t, id)))).toEqual(left);
  expect(left.filter((n) => n > 1)).toEqual([]);
}

const begin = (t: TestEngine): TestProcess =>
  startProcess([], { script: SCRIPT, env: { DATABASE_URL: withMovableClock(t.db.url) } });

/** Until the gate is open whoever writes what a schedule makes waits for it. */
async function holdBack({ db }: TestEngine): Promise<void> {
  await db.db.query(`create function wait_at_gate() returns trigger language plpgsql as
    $$begin perform pg_advisory_xact_lock_shared(${GATE}); return new; end$$`);
  await db.db.query(
    "create trigger wait_at_gate before insert on followups for each row execute function wait_at_gate()",
  );
}

/** The process that waits there. */
async function whoWaits({ db }: TestEngine): Promise<number> {
  const { rows } = await db.db.query<{ name: string }>(
    `select application_name as name
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'`,
  );
  return Number(rows[0]?.name.split("/")[1] ?? 0);
}

async function runs({ deps }: TestEngine, scheduleId: string): Promise<number> {
  const { rows } = await deps.db.query<{ n: number }>(
    "select count(*)::int as n from runs r join followups f using (tenant_id, followup_id) where f.schedule_id = $1",
    [scheduleId],
  );
  return rows[0]?.n ?? 0;
}

/** Moves the clock to an instant. */
async function to(t: TestEngine, instant: Date): Promise<void> {
  const { rows } = await t.deps.db.query<{ now: Date }>("select clock_timestamp() as now");
  await t.advance(Math.max(0, instant.getTime() - (rows[0]?.now.getTime() ?? 0)) + 1);
}
