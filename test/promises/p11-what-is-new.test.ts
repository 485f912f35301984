// P11, D5: what is stored is what is new. A conversation that is streamed whole at the start of each turn grows the bucket by
// the turn, not by the conversation; an image or a document is one object, however many steps and streams show it.
import { randomBytes } from "node:crypto";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";

/** The counts of case D5, which take a minute; a smaller share of them shows the same. */
const FULL = process.env["PERDURE_TEST_FULL"] === "1";
const [TURNS, IMAGE_STEPS, DOCUMENT_STEPS] = FULL ? [50, 50, 20] : [12, 10, 5];

/** Text that compresses no further than hex does. */
const noise = (chars: number) => randomBytes(chars / 2).toString("hex");

/** Bytes of all objects, and how many. */
async function bucket({ deps }: TestEngine, threadId: string): Promise<{ bytes: number; objects: number }> {
  let [bytes, objects] = [0, 0];
  for await (const key of deps.bodies.list(`default/${threadId}/`)) {
    bytes += (await deps.bodies.read(key)).length;
    objects += 1;
  }
  return { bytes, objects };
}

/** What the tables take on disk once what was deleted is cleaned up. */
async function postgresBytes({ deps }: TestEngine): Promise<number> {
  await deps.db.query("vacuum");
  const { rows } = await deps.db.query<{ bytes: number }>(
    `select sum(pg_total_relation_size(c.oid))::float8 as bytes
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'perdure' and c.relkind = 'r'`,
  );
  return rows[0]?.bytes ?? 0;
}

async function moveAll(t: TestEngine): Promise<void> {
  while ((await t.move()) > 0);
}

type Part = Readonly<{ id?: string; event: string; data: unknown }>;
async function all(stream: AsyncIterable<unknown>): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of stream) parts.push(part as Part);
  return parts;
}

test(`${TURNS} turns that stream their states: each turn adds its own size to the bucket, and replays to the letter`, async () => {
  const chat = new StateGraph(MessagesAnnotation)
    .addNode("answer", () => ({ messages: [new AIMessage(noise(600))] }))
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile();
  await withEngine({ graphs: { chat } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const sizes = [0];
    const seen: Part[][] = [];
    for (let turn = 1; turn <= TURNS; turn++) {
      const input = { messages: [{ type: "human", content: noise(600) }] };
      const streamMode = ["values", "debug"] as const;
      seen.push(await all(t.client.runs.stream(thread_id, "chat", { input, streamMode: [...streamMode] })));
      await moveAll(t);
      sizes.push((await bucket(t, thread_id)).bytes);
    }
    const grown = (from: number, to: number) => (sizes[to] ?? 0) - (sizes[from] ?? 0);
    if (FULL) console.log({ turns: TURNS, bucketBytes: sizes });
    // The second half costs about what the first did; with whole states in it, it would be about three times as much.
    const half = TURNS / 2;
    expect(grown(half, TURNS)).toBeLessThan(grown(0, half) * 1.4);
    for (const turn of [1, half, TURNS]) {
      const parts = seen[turn - 1] ?? [];
      const { run_id } = parts[0]?.data as { run_id: string };
      expect(await all(t.client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" }))).toEqual(parts);
    }
  });
});

/** Counts steps; `more` adds something to the state at each. */
function stepsGraph(steps: number) {
  const State = Annotation.Root({
    ...MessagesAnnotation.spec,
    count: Annotation<number>({ reducer: (_, n) => n, default: () => 0 }),
    document: Annotation<unknown>(),
  });
  return new StateGraph(State)
    .addNode("step", ({ count }) => ({ count: count + 1, messages: [new AIMessage(`step ${count}`)] }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ count }) => (count < steps ? "step" : END))
    .compile();
}

async function isStoredOnce(input: Readonly<Record<string, unknown>>, steps: number, maxBytes: number): Promise<void> {
  await withEngine({ graphs: { steps: stepsGraph(steps) }, previews: false }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const before = await postgresBytes(t);
    const config = { recursion_limit: steps + 10 };
    const run = t.client.runs.stream(thread_id, "steps", { input, config, streamMode: ["values", "updates"] });
    const parts = await all(run);
    expect(parts.filter(({ event }) => event === "values").length).toBeGreaterThan(steps);
    const whole = await t.client.threads.getState(thread_id);
    await moveAll(t);

    const grownBytes = (await postgresBytes(t)) - before;
    const { rows } = await t.deps.db.query<{ kind: string; n: number }>(
      "select kind, count(*)::int as n from packs where thread_id = $1 and kind = 'object' group by kind",
      [thread_id],
    );
    const stored = await bucket(t, thread_id);
    expect(rows).toEqual([{ kind: "object", n: 1 }]);
    expect(stored.bytes).toBeLessThan(maxBytes);
    expect(grownBytes).toBeLessThan(1_000_000);
    expect(JSON.stringify(await t.client.threads.getState(thread_id)) === JSON.stringify(whole)).toBe(true);
    const { run_id } = parts[0]?.data as { run_id: string };
    const replayed = await all(t.client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" }));
    expect(JSON.stringify(replayed) === JSON.stringify(parts)).toBe(true);
  });
}

test(`a 2 MB image in the first message and ${IMAGE_STEPS} steps: one object, and Postgres grows by less than 1 MB`, async () => {
  const url = `data:image/png;base64,${randomBytes(2_000_000).toString("base64")}`;
  const content = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url } },
  ];
  await isStoredOnce({ messages: [{ type: "human", content }] }, IMAGE_STEPS, url.length + 200_000);
});

test(`a JSON document of 5 MB in the state and ${DOCUMENT_STEPS} steps: one object, and Postgres grows by less than 1 MB`, async () => {
  const document = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`field ${i}`, noise(80)]));
  await isStoredOnce({ document }, DOCUMENT_STEPS, JSON.stringify(document).length + 200_000);
});
