// Durability "exit": of a run's states only the one it ended in stays, and none of another run's goes.
import { expect, test } from "vitest";
import { tickPruner } from "../../src/engine/loops/pruner.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";

async function prune(t: TestEngine): Promise<void> {
  while ((await tickPruner(t.deps, { ...t.engine.edits, retention: null })) > 0);
  expect((await t.db.db.query("select kind, last_error from timers where last_error is not null")).rows).toEqual([]);
}

const sizes = async ({ client }: TestEngine, threadId: string): Promise<number[]> =>
  (await client.threads.getHistory<{ log: string[] }>(threadId, { limit: 50 })).map(
    ({ values }) => values.log?.length ?? 0,
  );

test("only the last state stays, whatever comes after it, and the thread goes on from it", () =>
  withEngine({ graphs }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create();
    const input = { log: [] };
    await client.runs.wait(thread_id, "steps", { input, durability: "exit" });
    await prune(t);
    expect(await sizes(t, thread_id)).toEqual([3]);
    await client.runs.wait(thread_id, "steps", { input });
    await client.runs.wait(thread_id, "steps", { input, checkpointDuring: false });
    await client.runs.wait(thread_id, "steps", { input });
    await prune(t);
    // Of the second and the last all, of the first and the third the last.
    expect(await sizes(t, thread_id)).toEqual([12, 11, 10, 9, 9, 9, 6, 5, 4, 3, 3, 3]);
  }));

test("a question that is open stays, and its answer's run keeps to it too", () =>
  withEngine({ graphs }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "gate", { input: { log: [] }, durability: "exit" });
    await prune(t);
    expect(await sizes(t, thread_id)).toEqual([1]);
    expect(await client.threads.get(thread_id)).toMatchObject({ status: "interrupted" });
    const answered = { command: { resume: "yes" }, durability: "exit" as const };
    expect(await client.runs.wait(thread_id, "gate", answered)).toEqual({ log: ["before", "yes", "after"] });
    await prune(t);
    expect((await sizes(t, thread_id))[0]).toBe(3);
  }));

test("a cron's runs keep their states, and a cron that asks for less is refused", () =>
  withEngine({ graphs, workers: 0 }, async ({ app }) => {
    for (const asked of [{ durability: "exit" }, { checkpoint_during: false }]) {
      const body = JSON.stringify({ assistant_id: "steps", schedule: "0 9 * * *", ...asked });
      expect((await app.request("/runs/crons", { method: "POST", body })).status).toBe(422);
    }
  }));
