// How attempts fail: whatever is thrown, and whatever can't be stored, the run ends once and says why.
import { GraphDrained } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";

const named = (name: unknown, message: unknown) => Object.assign(new Error("x"), { name, message });

async function lastRun({ db }: TestEngine) {
  const { rows } = await db.db.query<{ status: string; attempt: number; error_type: string; error_code: string }>(
    "select status, attempt, error_type, error_code from runs order by seq desc limit 1",
  );
  return rows[0];
}

test.each([
  ["an error", new TypeError("no"), "TypeError", "no"],
  ["NUL and half a character", named("Na\0me\ud800", "a\0b\ud800"), "Error", "a\0b"],
  ["a name that is a text", named("x".repeat(5_000), "m"), "Error", "m"],
  ["no name at all", named(undefined, "m"), "Error", "m"],
  ["a message that is no text", named("Odd", { a: 1n }), "Odd", "a: 1n"],
  ["what LangGraph throws when it is asked to stop, which nobody did", new GraphDrained("inner"), "GraphDrained", ""],
  ["what can't be made a text", named("Odd", Object.create(null)), "Error", "can't be read"],
])("a node that throws %s ends its run in error, once", async (_what, thrown, type, message) => {
  const graph = stepsGraph(1, () => {
    throw thrown;
  });
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const result = await t.client.runs.wait(thread_id, "graph", { input: { log: [] }, raiseError: false });
    expect(result).toMatchObject({ __error__: { error: type, message: expect.stringContaining(message) as string } });
    expect(await lastRun(t)).toMatchObject({
      status: "error",
      attempt: 1,
      error_type: type,
      error_code: "graph_error",
    });
    expect((await t.client.threads.get(thread_id)).status).toBe("error");
  });
});

test.each([null, undefined, "text", 7, Object.freeze({})])(
  "a node that throws %s, no error, ends its run too",
  async (thrown) => {
    const graph = stepsGraph(1, () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- graphs may, and that is what this is about
      throw thrown;
    });
    await withEngine({ graphs: { graph } }, async (t) => {
      const { thread_id } = await t.client.threads.create();
      await t.client.runs.wait(thread_id, "graph", { input: { log: [] }, raiseError: false });
      expect(await lastRun(t)).toMatchObject({ status: "error", attempt: 1 });
    });
  },
);

async function refuseInserts({ db }: TestEngine, table: string, when: string): Promise<void> {
  await db.db.query(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
  );
  await db.db.query(
    `create trigger refuse before insert on ${table} for each row when (${when}) execute function refuse()`,
  );
}

test("a step whose checkpoint can't be stored ends its run: no later node is entered", async () => {
  const entered: string[] = [];
  await withEngine({ graphs: { graph: stepsGraph(3, (node) => entered.push(node)) } }, async (t) => {
    await refuseInserts(t, "checkpoints", "new.step = 1");
    const { thread_id } = await t.client.threads.create();
    const result = await t.client.runs.wait(thread_id, "graph", { input: { log: [] }, raiseError: false });
    expect(result).toMatchObject({ __error__: { message: "refused" } });
    expect(await lastRun(t)).toMatchObject({ status: "error", attempt: 1 });
    expect(entered).toEqual(["s1"]);
  });
});

test("a run whose stream can't be stored ends at once, whatever its graph is in the middle of", async () => {
  const graph = stepsGraph(2, (node) => (node === "s2" ? new Promise(() => {}) : null));
  await withEngine({ graphs: { graph } }, async (t) => {
    await refuseInserts(t, "stream_chunks", `new.lines like '%"s1"%'`);
    const { thread_id } = await t.client.threads.create();
    const result = await t.client.runs.wait(thread_id, "graph", { input: { log: [] }, raiseError: false });
    expect(result).toMatchObject({ __error__: { message: "refused" } });
    expect(await lastRun(t)).toMatchObject({ status: "error", attempt: 1 });
  });
});
