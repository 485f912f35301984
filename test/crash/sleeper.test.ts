// P6 and the scheduler table: a graph that sleeps holds nothing, and is woken once, whatever was down in between.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

test("a graph sleeps, everything stops and starts again after it was due: it is resumed once", async () => {
  await withCrashSite(async (site) => {
    const { client, db } = site;
    const journal = site.journal();
    const { thread_id } = await client.threads.create();
    // What is moved could not be changed below.
    const first = site.worker({ PERDURE_MOVE_AFTER_MS: "3600000" });
    const run = await client.runs.create(thread_id, "sleeper", {
      input: { sleep_ms: 3_600_000 },
      config: { configurable: { journal: journal.path } },
    });
    const sleeping = async () =>
      (
        await db.db.query(
          `select 1 from timers t join runs r on r.run_id = t.ref_id
          where t.kind = 'run.release' and t.status = 'due' and r.run_id = $1 and r.status = 'pending'
            and r.lease_owner is null and r.waits_for = 'timer'`,
          [run.run_id],
        )
      ).rowCount;
    await until("the run to sleep in the table", sleeping);
    await first.kill();
    expect((await client.threads.get(thread_id)).status).toBe("busy");
    // As if the hour had passed.
    await db.db.query("update timers set due_at = now() where ref_id = $1 and status = 'due'", [run.run_id]);
    const { rowCount } = await db.db.query(
      `update checkpoint_writes
      set data = convert_to(regexp_replace(convert_from(data, 'utf8'), '"until":"[^"]*"', '"until":"2020-01-01T00:00:00Z"'), 'utf8')
      where thread_id = $1 and channel = '__interrupt__'`,
      [thread_id],
    );
    expect(rowCount).toBe(1);
    expect(journal.count("enter after")).toBe(0);
    // Three at once: one of them wakes it.
    site.worker();
    site.worker();
    site.worker();
    await until("the run to end", async () => (await client.runs.get(thread_id, run.run_id)).status === "success");
    const { values } = await client.threads.getState<{ log: string[] }>(thread_id);
    expect(values.log).toEqual(["before", "slept", "after"]);
    for (const node of ["before", "after"]) expect(journal.count(`enter ${node}`)).toBe(1);
    const { rows } = await db.db.query<{ n: number }>(
      "select count(*) as n from events where run_id = $1 and type = 'run.woken'",
      [run.run_id],
    );
    expect(rows[0]?.n).toBe(1);
  });
}, 120_000);
