// P6 and the scheduler table: a graph that sleeps holds nothing, and is woken once, whatever was down in between.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

test("a graph sleeps, everything stops and starts again after it was due: it is resumed once", async () => {
  await withCrashSite(async (site) => {
    const { client, db } = site;
    const journal = site.journal();
    const { thread_id } = await client.threads.create();
    const first = site.worker();
    const run = await client.runs.create(thread_id, "sleeper", {
      input: { sleep_ms: 4_000 },
      config: { configurable: { journal: journal.path } },
    });
    const sleeping = async () =>
      (
        await db.db.query<{ due: Date }>(
          `select t.due_at as due from timers t join runs r on r.run_id = t.ref_id
          where t.kind = 'run.release' and t.status = 'due' and r.run_id = $1 and r.status = 'pending'
            and r.lease_owner is null and r.waits_for = 'timer'`,
          [run.run_id],
        )
      ).rows[0]?.due;
    const due = await until("the run to sleep in the table", sleeping);
    await first.kill();
    expect((await client.threads.get(thread_id)).status).toBe("busy");
    await until("the time to pass", async () => {
      const { rows } = await db.db.query<{ late: boolean }>("select clock_timestamp() > $1 as late", [due]);
      return rows[0]?.late;
    });
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
