// `perdure threads adopt` for people and programs: what it says of threads that come over, and of those that don't.
import { v7 as uuidv7 } from "uuid";
import { expect, it } from "vitest";
import { type AdoptFlags, threadsAdopt } from "../../src/cli/adopt.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { type StockDatabase, withStockDatabase } from "../helpers/stock.js";

const ALL: AdoptFlags = { graphId: null, threadIds: null, dryRun: false };

function adopting({ engine }: TestEngine, { source }: StockDatabase) {
  return async (flags: Partial<AdoptFlags>, json = false) => {
    const said: string[] = [];
    const noted: string[] = [];
    const print = { json, line: (text: string) => void said.push(text), note: (text: string) => void noted.push(text) };
    const complete = await threadsAdopt(engine, source, { ...ALL, ...flags }, print);
    return { complete, text: said.join("\n"), lines: said, noted: noted.join("\n") };
  };
}

it("says what came over, what didn't and why, and is right again when run again", async () => {
  await withStockDatabase(async (stock) => {
    const graph = gateGraph([], ["q1"]);
    const there = graph.withConfig({});
    there.checkpointer = stock.saver;
    const [good, bad] = [uuidv7(), uuidv7()];
    for (const id of [good, bad]) await there.invoke({ log: ["in"] }, { configurable: { thread_id: id } });
    await stock.change("update checkpoint_blobs set type = 'msgpack' where thread_id = $1 and type = 'json'", [bad]);
    await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
      const adopt = adopting(t, stock);
      const threads = async () => (await t.db.db.query("select 1 from threads")).rowCount;

      const dry = await adopt({ dryRun: true });
      expect(dry.complete).toBe(false);
      expect(dry.text).toContain(`thread "${bad}" was not adopted: Checkpoint `);
      expect(dry.text).toMatch(/^can be adopted +1$/m);
      expect(await threads()).toBe(0);

      const json = await adopt({}, true);
      expect(json.complete).toBe(false);
      const lines = json.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines).toContainEqual({
        ...{ source_thread_id: good, thread_id: good, outcome: "adopted", differences: [] },
        ...{ checkpoints: 2, equal: 2, writes: expect.any(Number) as unknown },
      });
      expect(lines).toContainEqual(expect.objectContaining({ outcome: "failed", error: "value_unsupported" }));
      expect(lines.at(-1)).toMatchObject({ summary: { threads: 2, adopted: 1, failed: 1, equal: 2, unequal: 0 } });
      expect(json.noted).toContain("2/2 threads (1 failed), 2 checkpoints");
      expect(await threads()).toBe(1);

      const again = await adopt({ threadIds: [good] });
      expect(again).toMatchObject({ complete: true });
      expect(again.text).toMatch(/^adopted before +1$/m);
      await expect(adopt({ graphId: "grahp" })).rejects.toThrow('did you mean "graph"?');
    });
    await withEngine({ graphs: { one: graph, two: graph }, workers: 0 }, async (t) => {
      await expect(adopting(t, stock)({})).rejects.toThrow(
        "--graph: say which graph the threads are of; there are: one, two",
      );
    });
  });
});
