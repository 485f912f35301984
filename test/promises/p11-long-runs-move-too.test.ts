// P11: a run that goes on for long does not keep its bodies in Postgres until it ends.
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

test("what a long run stored is moved while it runs, and it goes on from there", async () => {
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const graph = stepsGraph(6, (node) => (node === "s5" ? gate : undefined));
  await withEngine({ graphs: { graph }, moveAfterMs: 1_000 }, async ({ client, db, move }) => {
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "graph", { input: { log: ["x".repeat(3_000)] } });
    const count = async (where: string) =>
      (
        await db.db.query<{ n: number }>(`select count(*) as n from checkpoints where thread_id = $1 and ${where}`, [
          thread_id,
        ])
      ).rows[0]?.n;
    await until("the run to wait in its fifth node", async () => ((await count("true")) ?? 0) >= 6);
    await until("its checkpoints to be moved", async () => {
      await move();
      return ((await count("pack_id is not null")) ?? 0) >= 5;
    });
    expect(await count("pack_id is null")).toBe(1); // the one it goes on from
    expect((await client.runs.get(thread_id, run_id)).status).toBe("running");
    release();
    await client.runs.join(thread_id, run_id);
    const { values } = await client.threads.getState<{ log: string[] }>(thread_id);
    expect(values.log.map((line) => (line.length > 9 ? "long" : line))).toEqual([
      "long",
      "s1",
      "s2",
      "s3",
      "s4",
      "s5",
      "s6",
    ]);
  });
});
