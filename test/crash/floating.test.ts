// A promise that a graph leaves alone and that fails ends neither its run nor the worker with the runs beside it.
import { expect, test } from "vitest";
import { withCrashSite } from "./setup.js";

test("a rejection that nobody handles is logged, and worker and run go on", async () => {
  await withCrashSite(async ({ client, worker }) => {
    const started = worker();
    const { thread_id } = await client.threads.create();
    expect(await client.runs.wait(thread_id, "floating", { input: { done: false } })).toEqual({ done: true });
    const [line] = await started.waitFor(/.*a promise nobody waited for failed.*/);
    expect(JSON.parse(line)).toMatchObject({
      error: "Error",
      frames: expect.stringContaining("floating.ts") as string,
    });
    expect(started.output()).not.toContain("left alone");
    expect(await started.stop()).toBe(0);
  });
});
