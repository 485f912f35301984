// Bodies that are gone or damaged in the object store: noticed by our own hash, never given to a node, and no more than they.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { EngineError } from "../../src/core/errors.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

const Note = Annotation.Root({ note: Annotation<string>(), seen: Annotation<string>() });
const long = (name: string) => `${name} ${"x".repeat(3_000)}`;

/** Puts what it is given, after looking at what was there. */
function noteGraph(entered: string[]) {
  return new StateGraph(Note)
    .addNode("look", ({ note }) => {
      entered.push(note.split(" ")[0] ?? "");
      return { seen: "yes" };
    })
    .addEdge(START, "look")
    .addEdge("look", END)
    .compile();
}

/** Three moved runs on one thread: the keys of their packs and the checkpoints they ended with, oldest first. */
async function movedThread(t: TestEngine): Promise<{ threadId: string; packs: string[]; heads: string[] }> {
  const { thread_id: threadId } = await t.client.threads.create();
  for (const name of ["first", "second", "third"]) {
    await t.client.runs.wait(threadId, "note", { input: { note: long(name) } });
    while ((await t.move()) > 0);
  }
  const packs: string[] = [];
  for await (const key of t.deps.bodies.list(`default/${threadId}/`)) if (!key.endsWith(".json")) packs.push(key);
  expect(packs).toHaveLength(3);
  const { rows } = await t.deps.db.query<{ id: string }>(
    "select result_checkpoint_id as id from runs where thread_id = $1 order by seq",
    [threadId],
  );
  return { threadId, packs: packs.sort(), heads: rows.map((row) => row.id) };
}

async function forgetCaches({ engine }: TestEngine): Promise<void> {
  const { db: sql, bodies } = engine.deps;
  const cold = createBodyReader({ sql, bodies, packs: createPackReader(bodies), cacheBytes: 1 << 20 });
  Object.assign(engine.bodyReader, cold);
}

async function flip({ deps }: TestEngine, key: string): Promise<void> {
  const bytes = Buffer.from(await deps.bodies.read(key));
  bytes[60] = (bytes[60] ?? 0) ^ 1;
  await deps.bodies.delete([key]);
  await deps.bodies.create(key, bytes);
}

test("an old checkpoint's object is gone: the head works, the history marks it, runs go on", async () => {
  const entered: string[] = [];
  await withEngine({ graphs: { note: noteGraph(entered) } }, async (t) => {
    const { threadId, packs } = await movedThread(t);
    await t.deps.bodies.delete([packs[0]!]);
    await forgetCaches(t);
    expect(await t.client.threads.getState(threadId)).toMatchObject({ values: { note: long("third") } });
    const history = await t.client.threads.getHistory(threadId, { limit: 100 });
    const marks = history.map(({ metadata }) => (metadata as { perdure_error?: { code: string } }).perdure_error?.code);
    // The first run's three, and the second's first, which still holds the first note.
    expect(marks.map((mark) => mark ?? "")).toEqual([...Array(5).fill(""), ...Array(4).fill("body_missing")]);
    expect(history[0]).toMatchObject({ values: { note: long("third") } });
    expect(history[8]).toMatchObject({ values: {}, checkpoint: { thread_id: threadId } });
    await t.client.runs.wait(threadId, "note", { input: { note: long("fourth") } });
    expect(entered).toEqual(["first", "second", "third", "fourth"]);
  });
});

test.each(["gone", "damaged"])(
  "the head's object is %s: a run on it fails once, by name, and an older checkpoint can be forked",
  async (how) => {
    const entered: string[] = [];
    await withEngine({ graphs: { note: noteGraph(entered) } }, async (t) => {
      const { threadId, packs, heads } = await movedThread(t);
      if (how === "gone") await t.deps.bodies.delete([packs[2]!]);
      else await flip(t, packs[2]!);
      await forgetCaches(t);
      const run = await t.client.runs.create(threadId, "note", { input: { note: long("fourth") } });
      const joined = await t.client.runs.join(threadId, run.run_id);
      const { rows } = await t.deps.db.query(
        `select r.status, r.attempt, r.error_code as code, t.status as thread
        from runs r join threads t using (tenant_id, thread_id)
        where r.run_id = $1`,
        [run.run_id],
      );
      const code = how === "gone" ? "body_missing" : "body_corrupt";
      expect(joined).toMatchObject({ __error__: { error: code } });
      expect(rows).toEqual([{ status: "error", attempt: 1, code, thread: "error" }]);
      expect(entered).toEqual(["first", "second", "third"]);

      const checkpoint = { checkpoint_id: heads[1]!, checkpoint_ns: "", checkpoint_map: null };
      const forked = await t.client.runs.wait(threadId, "note", { input: { note: long("forked") }, checkpoint });
      expect(forked).toMatchObject({ note: long("forked") });
      expect(await t.client.threads.getState(threadId)).toMatchObject({ values: { note: long("forked") } });
    });
  },
);

test("an object store that is away when a moved thread goes on: the run waits and succeeds, no node is entered twice", async () => {
  const entered: string[] = [];
  await withEngine({ graphs: { note: noteGraph(entered) } }, async (t) => {
    const { threadId } = await movedThread(t);
    await forgetCaches(t);
    const read = t.deps.bodies.read;
    let refused = 0;
    Object.assign(t.deps.bodies, {
      read: () => {
        refused += 1;
        return Promise.reject(new EngineError("unavailable", "the object store is away"));
      },
    });
    const run = await t.client.runs.create(threadId, "note", { input: { note: long("fourth") } });
    await until("the run met the outage", () => refused > 0);
    Object.assign(t.deps.bodies, { read });
    await until("the run is finished", async () => {
      await t.fireTimers();
      return (await t.client.runs.get(threadId, run.run_id)).status === "success";
    });
    expect(entered).toEqual(["first", "second", "third", "fourth"]);
  });
});
