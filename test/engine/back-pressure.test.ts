// A graph that makes more than Postgres takes is made to wait: what waits to be stored doesn't fill the memory.
import { entrypoint, task } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { beforeCommits } from "../helpers/commits.js";
import { withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

const TASKS = 40;
const CHARS = 900_000;

test("tasks whose results can't be stored yet stop after 16 MB, and go on when they are", async () => {
  let started = 0;
  const make = task("make", async (n: number) => {
    started += 1;
    return `${n} `.padEnd(CHARS, "x");
  });
  const many = entrypoint("many", async (_: unknown) => {
    for (let n = 0; n < TASKS; n += 1) await make(n);
    return { done: true };
  });
  await withEngine({ graphs: { many }, leaseMs: 20_000 }, async ({ client, deps }) => {
    let open = false;
    // The first commit is that of the input.
    beforeCommits(deps.db, () => until("Postgres takes it", () => open || started === 0).then(() => undefined));
    const { thread_id } = await client.threads.create();
    const run = client.runs.wait(thread_id, "many", { input: {} });
    await until("the graph is made to wait", async () => {
      const before = started;
      await new Promise((resolve) => setTimeout(resolve, 300));
      // Before so many it may only have been slow.
      return before > 10 && started === before;
    });
    expect(started * CHARS).toBeLessThan(18_000_000);
    open = true;
    expect(await run).toEqual({ done: true });
    expect(started).toBe(TASKS);
  });
});
