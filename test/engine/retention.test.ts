// Retention without anybody: states go by a timer, contents of old runs expire, and what a question needs stays.
import { expect, test } from "vitest";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { setRetentionTimer, tickPruner } from "../../src/engine/loops/pruner.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";

const DAY_MS = 86_400_000;
const retention = {
  checkpoints: { keepLatest: 1, olderThanMs: 30 * DAY_MS, outcomes: null, graphIds: null },
  runs: { olderThanMs: 90 * DAY_MS },
};

/** One round of the pruner, now. */
async function round(t: TestEngine): Promise<void> {
  await setRetentionTimer(t.deps, DEFAULT_TENANT, 0);
  const options = { ...t.engine.edits, retention };
  while ((await tickPruner(t.deps, options)) > 0);
  expect((await t.db.db.query("select kind, last_error from timers where last_error is not null")).rows).toEqual([]);
}

/** As if everything that is there had happened so many days earlier. */
async function age({ db }: TestEngine, days: number): Promise<void> {
  await db.db.query("update checkpoints set created_at = created_at - $1 * interval '1 day'", [days]);
  await db.db.query("update runs set finished_at = finished_at - $1 * interval '1 day'", [days]);
}

test("the pruner forgets old states and expires old runs, which are still listed and say so", async () => {
  const failing = stepsGraph(2, (node) => {
    if (node === "s2") throw new TypeError("no luck today");
  });
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}), failing, gate: gateGraph([]) } }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "steps", { input: { log: ["first"] } });
    const [run] = await client.runs.list(thread_id);
    const ofFailure = (await client.threads.create()).thread_id;
    await client.runs.wait(ofFailure, "failing", { input: { log: [] }, raiseError: false });
    const [failed] = await client.runs.list(ofFailure);
    const asking = (await client.threads.create()).thread_id;
    await client.runs.wait(asking, "gate", { input: { log: [] } });
    const [asked] = await client.runs.list(asking);
    while ((await t.move()) > 0);
    await round(t);
    expect(await client.threads.getHistory(thread_id)).toHaveLength(5);

    await age(t, 40);
    await round(t);
    expect(await client.threads.getHistory(thread_id)).toHaveLength(1);
    expect(await client.runs.get(thread_id, run!.run_id)).toMatchObject({ kwargs: { input: { log: ["first"] } } });

    await client.runs.wait(thread_id, "steps", { input: { log: ["second"] } });
    await age(t, 60);
    await round(t);
    const listed = await client.runs.list(thread_id);
    expect(listed).toHaveLength(2);
    expect(listed[1]).toMatchObject({ run_id: run!.run_id, status: "success", kwargs: {} });
    expect((listed[1] as { error?: string }).error).toContain("expired at");
    const events: unknown[] = [];
    for await (const event of client.runs.joinStream(thread_id, run!.run_id)) events.push(event);
    expect(events).toEqual([
      expect.objectContaining({ event: "expired", data: expect.objectContaining({ run_id: run!.run_id }) as unknown }),
    ]);
    // Its state was pruned long ago, and the thread went on since.
    expect(await client.runs.join(thread_id, run!.run_id)).toMatchObject({ __error__: { error: "expired" } });
    expect(await client.runs.join(ofFailure, failed!.run_id)).toMatchObject({ __error__: { error: "TypeError" } });
    expect(JSON.stringify(await client.runs.join(ofFailure, failed!.run_id))).not.toContain("no luck");
    expect((await t.db.db.query("select 1 from events where run_id = $1", [run!.run_id])).rowCount).toBe(0);

    // A question that is open keeps its run whole.
    expect(await client.runs.get(asking, asked!.run_id)).toMatchObject({ kwargs: { input: { log: [] } } });
    expect(await client.runs.wait(asking, "gate", { command: { resume: "yes" } })).toMatchObject({
      log: ["q1:yes", "acted"],
    });
    await round(t);
    await expect(client.runs.get(asking, asked!.run_id)).resolves.toMatchObject({ kwargs: {} });
  });
});
