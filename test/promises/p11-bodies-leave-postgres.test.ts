// P11 on the real S3 server: once an agent's conversation has moved, idle or waiting for an approval, none of its texts is left
// in any Postgres table and all of it reads back. L2: bodies that are gone or damaged cost what needs them, and nothing else.
import { randomUUID } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { tool } from "@langchain/core/tools";
import { Client } from "@langchain/langgraph-sdk";
import { createAgent } from "langchain";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { describeS3, newS3Uri } from "../helpers/s3-store.js";
import { searchTables } from "../helpers/search-tables.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const TURNS = 50;
const FAILING = 7;
const TIMEOUT_MS = 180_000;
const SCHEMAS = ["perdure", "perdure_store", "public"];

/** Texts of 20 bytes and of 5 KB, each word of which says whose it is; turns take turns. */
function createTexts() {
  const mark = `mk${randomUUID().slice(0, 4)}`;
  const text = (what: string, turn: number): string => {
    const word = `${mark}-${what}-${String(turn).padStart(2, "0")}`;
    if (turn % 2 === 0) return word.padEnd(20, "~");
    return `${word} `.repeat(Math.ceil(5_000 / (word.length + 1))).trim();
  };
  return { mark, text };
}

/** Calls `lookup` once per turn, then answers; in turns that say "pay", asks before it calls `pay`. */
function agentOf(text: (what: string, turn: number) => string) {
  const model = new StreamingModel((messages) => {
    const turn = messages.filter((message) => message.type === "human").length;
    if (turn === FAILING) throw new Error(text("failure", turn));
    if (messages.at(-1)?.type === "tool") return { text: text("answer", turn) };
    const name = messages.at(-1)?.text.startsWith("pay ") ? "pay" : "lookup";
    return {
      text: text("thought", turn),
      calls: [{ id: `call-${turn}`, name, args: { q: text("args", turn), turn } }],
    };
  });
  const schema = z.object({ q: z.string(), turn: z.number() });
  const lookup = tool(({ turn }) => text("result", turn), { name: "lookup", description: "", schema });
  const pay = tool(({ turn }) => `${String(interrupt({ question: text("question", turn) }))} ${text("result", turn)}`, {
    ...{ name: "pay", description: "", schema },
  });
  return createAgent({ model, tools: [lookup, pay] });
}

type Part = Readonly<{ id?: string; event: string; data: unknown }>;

async function all(stream: AsyncIterable<unknown>): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of stream) parts.push(part as Part);
  return parts;
}

/** One turn, as a chat client has it; returns what it saw. */
function say({ client }: TestEngine, threadId: string, content: string): Promise<Part[]> {
  const input = { messages: [{ type: "human", content }] };
  const streamMode = ["messages-tuple", "updates", "tools"] as const;
  return all(client.runs.stream(threadId, "agent", { input, streamMode: [...streamMode] }));
}

/** A client of a process that has read nothing yet. */
function coldClient({ engine }: TestEngine): Client {
  const { db: sql, bodies } = engine.deps;
  const bodyReader = createBodyReader({ sql, bodies, packs: createPackReader(bodies), cacheBytes: 64 << 20 });
  const app = createApp({ ...engine, bodyReader });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } });
}

/** All that can be asked about the thread; the newest of its history and runs. */
async function everything(client: Client, threadId: string, newest = 1_000) {
  const runs = await client.runs.list(threadId, { limit: Math.min(newest, 100) });
  return {
    thread: await client.threads.get(threadId),
    state: await client.threads.getState(threadId, undefined, { subgraphs: true }),
    history: await client.threads.getHistory(threadId, { limit: newest }),
    runs,
    results: await Promise.all(runs.map((run) => client.runs.join(threadId, run.run_id))),
  };
}

/** Moves all there is; the marks that are left in Postgres afterwards. */
async function move(t: TestEngine, mark: string): Promise<string[]> {
  while ((await t.move()) > 0);
  const left = [];
  for (const schema of SCHEMAS) left.push(...(await searchTables(t.deps.db, mark, schema)));
  return left.map(({ table, column }) => `${table}.${column}`);
}

async function packsOf({ deps }: TestEngine, threadId: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const key of deps.bodies.list(`default/${threadId}/`)) if (!key.endsWith(".json")) keys.push(key);
  return keys.sort();
}

/** What a person finds in the bucket, with nothing but gunzip. */
async function unpacked(t: TestEngine, threadId: string): Promise<string> {
  const texts: string[] = [];
  for (const key of await packsOf(t, threadId)) {
    expect(key).toMatch(/\.jsonl\.gz$/);
    const text = gunzipSync(await t.deps.bodies.read(key)).toString("utf8");
    for (const line of text.trimEnd().split("\n")) expect(JSON.parse(line)).toBeTypeOf("object");
    texts.push(text);
  }
  return texts.join("");
}

describeS3("P11 on S3", (server) => {
  const engine = async (graphs: Record<string, unknown>, previews: boolean, work: (t: TestEngine) => Promise<void>) => {
    vi.stubEnv("AWS_ENDPOINT_URL_S3", server.endpoint);
    vi.stubEnv("AWS_REGION", server.region);
    vi.stubEnv("AWS_ACCESS_KEY_ID", server.accessKeyId);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", server.secretAccessKey);
    try {
      await withEngine({ graphs, previews, bodies: await newS3Uri(server) }, work);
    } finally {
      vi.unstubAllEnvs();
    }
  };

  test(
    "50 turns of an agent, idle and waiting for an approval: no text is in Postgres, all of it reads back, it goes on",
    async () => {
      const { mark, text } = createTexts();
      await engine({ agent: agentOf(text) }, false, async (t) => {
        const { thread_id } = await t.client.threads.create();
        const seen: Part[][] = [];
        for (let turn = 1; turn <= TURNS; turn++) seen.push(await say(t, thread_id, text("input", turn)));
        expect(seen[FAILING - 1]?.at(-1)).toMatchObject({
          event: "error",
          data: { message: text("failure", FAILING) },
        });
        expect(seen[1]?.filter(({ event }) => event === "messages").length).toBeGreaterThan(2);

        const before = await everything(coldClient(t), thread_id);
        expect(before.history.length).toBeGreaterThan(TURNS * 4);
        expect(await move(t, mark)).toEqual([]);
        expect(await everything(coldClient(t), thread_id)).toEqual(before);
        const bucket = await unpacked(t, thread_id);
        for (const what of ["input", "thought", "args", "result", "answer"])
          for (const turn of [1, 2, TURNS - 1, TURNS]) expect(bucket).toContain(text(what, turn));
        expect(bucket).toContain(text("failure", FAILING));
        // Who comes late gets the stream that was sent, from whichever pack it is in.
        for (const turn of [1, 2, FAILING, TURNS]) {
          const parts = seen[turn - 1] ?? [];
          const { run_id } = parts[0]?.data as { run_id: string };
          const join = (lastEventId: string) => all(coldClient(t).runs.joinStream(thread_id, run_id, { lastEventId }));
          expect(await join("-1")).toEqual(parts);
          expect(await join(parts[1]?.id ?? "")).toEqual(parts.slice(2));
        }

        // Both lengths of a question, waiting.
        for (const turn of [TURNS + 1, TURNS + 2]) {
          await say(t, thread_id, `pay ${text("input", turn)}`);
          const asking = await everything(coldClient(t), thread_id, 10);
          expect(asking.thread.status).toBe("interrupted");
          expect(await move(t, mark)).toEqual([]);
          expect(await everything(coldClient(t), thread_id, 10)).toEqual(asking);
          const open = (await (await t.app.request("/v1/approvals")).json()) as Record<string, unknown>[];
          expect(open).toMatchObject([{ thread_id, value: { question: text("question", turn) } }]);
          const [interrupt] = asking.state.tasks.flatMap(({ interrupts }) => interrupts);
          const resume = { [interrupt?.id ?? ""]: text("decision", turn) };
          const { messages } = (await coldClient(t).runs.wait(thread_id, "agent", { command: { resume } })) as {
            messages: { content: string }[];
          };
          expect(messages.at(-2)?.content).toBe(`${text("decision", turn)} ${text("result", turn)}`);
          expect(messages.at(-1)?.content).toBe(text("answer", turn));
        }

        await say(t, thread_id, text("input", TURNS + 3));
        const later = await everything(coldClient(t), thread_id, 10);
        expect(await move(t, mark)).toEqual([]);
        expect(await everything(coldClient(t), thread_id, 10)).toEqual(later);
      });
    },
    TIMEOUT_MS,
  );

  test("with previews on, what is left of an error is one masked line of at most 200 characters", async () => {
    const mark = `mk${randomUUID().slice(0, 4)}`;
    const failing = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("fail", () => {
        throw new Error(`${mark} ada@example.org +49 170 1234567 sk-abcdefghijkl\n${`${mark} `.repeat(500)}`);
      })
      .addEdge(START, "fail");
    await engine({ failing }, true, async (t) => {
      const { thread_id } = await t.client.threads.create();
      await t.client.runs.wait(thread_id, "failing", { input: { n: 1 }, raiseError: false });
      expect(await move(t, mark)).toEqual(["runs.error_preview"]);
      const { rows } = await t.deps.db.query<{ preview: string }>("select error_preview as preview from runs");
      expect(rows[0]?.preview).toMatch(new RegExp(`^Error: ${mark} \\[email\\] \\[number\\] \\[secret\\] ${mark}`));
      expect(rows[0]?.preview.length).toBeLessThanOrEqual(200);
    });
  });

  const Note = Annotation.Root({ note: Annotation<string>(), seen: Annotation<string>() });
  const long = (name: string) => `${name} ${"x".repeat(3_000)}`;

  /** Three turns, each moved on its own: a pack each, of which the next turn needs nothing. */
  async function threeNotes(work: (t: TestEngine, at: Awaited<ReturnType<typeof notes>>) => Promise<void>) {
    const entered: string[] = [];
    const note = new StateGraph(Note)
      .addNode("look", ({ note }) => {
        entered.push(note.split(" ")[0] ?? "");
        return { seen: "yes" };
      })
      .addEdge(START, "look")
      .addEdge("look", END)
      .compile();
    await engine({ note }, false, async (t) => work(t, await notes(t, entered)));
  }
  async function notes(t: TestEngine, entered: string[]) {
    const { thread_id } = await t.client.threads.create();
    for (const name of ["first", "second", "third"]) {
      await t.client.runs.wait(thread_id, "note", { input: { note: long(name) } });
      while ((await t.move()) > 0);
    }
    const history = await t.client.threads.getHistory<{ note: string }>(thread_id, { limit: 100 });
    const packs = await packsOf(t, thread_id);
    expect(packs).toHaveLength(3);
    Object.assign(t.engine.bodyReader, cold(t));
    return { thread_id, packs, history, entered };
  }
  function cold({ deps }: TestEngine) {
    return createBodyReader({
      ...{ sql: deps.db, bodies: deps.bodies, cacheBytes: 1 << 20 },
      packs: createPackReader(deps.bodies),
    });
  }
  async function flipByte({ deps }: TestEngine, key: string): Promise<void> {
    const bytes = Buffer.from(await deps.bodies.read(key));
    bytes[60] = (bytes[60] ?? 0) ^ 1;
    await deps.bodies.delete([key]);
    await deps.bodies.create(key, bytes);
  }
  const json = { headers: { accept: "application/json" } };

  test("an object that only old checkpoints use is gone: the head works, those say so, the others are there", async () => {
    await threeNotes(async (t, { thread_id, packs, history, entered }) => {
      await t.deps.bodies.delete([packs[0] ?? ""]);
      expect(await t.client.threads.getState(thread_id)).toEqual(history[0]);
      const old = history.at(-1)?.checkpoint;
      const state = await t.app.request(`/threads/${thread_id}/state/${old?.checkpoint_id}`, json);
      expect([state.status, await state.json()]).toEqual([410, expect.objectContaining({ code: "body_missing" })]);

      const marked = await t.client.threads.getHistory(thread_id, { limit: 100 });
      expect(marked.map(({ checkpoint }) => checkpoint)).toEqual(history.map(({ checkpoint }) => checkpoint));
      const kept = marked.findIndex(({ metadata }) => metadata?.["perdure_error"] !== undefined);
      expect(marked.slice(0, kept)).toEqual(history.slice(0, kept));
      for (const { values, next, metadata } of marked.slice(kept)) {
        const perdure_error = { code: "body_missing", message: expect.stringContaining(thread_id) as string };
        expect({ values, next, metadata }).toMatchObject({ values: {}, next: [], metadata: { perdure_error } });
      }
      expect(history.slice(0, kept).some(({ values }) => values.note === long("second"))).toBe(true);
      await t.client.runs.wait(thread_id, "note", { input: { note: long("fourth") } });
      expect(entered).toEqual(["first", "second", "third", "fourth"]);
    });
  });

  test.each([
    ["gone", "body_missing"],
    ["damaged", "body_corrupt"],
  ])(
    "the head's object is %s: a run fails once by the name of it, no node gets it, older checkpoints fork",
    async (how, code) => {
      await threeNotes(async (t, { thread_id, packs, history, entered }) => {
        if (how === "gone") await t.deps.bodies.delete([packs[2] ?? ""]);
        else await flipByte(t, packs[2] ?? "");
        const state = await t.app.request(`/threads/${thread_id}/state`, json);
        expect([state.status, await state.json()]).toEqual([410, expect.objectContaining({ code })]);
        const run = await t.client.runs.create(thread_id, "note", { input: { note: long("fourth") } });
        await t.client.runs.join(thread_id, run.run_id);
        const { rows } = await t.deps.db.query(
          `select r.status, r.attempt, r.error_code as code, t.status as thread
        from runs r join threads t using (tenant_id, thread_id)
        where r.run_id = $1`,
          [run.run_id],
        );
        expect(rows).toEqual([{ status: "error", attempt: 1, code, thread: "error" }]);
        expect(entered).toEqual(["first", "second", "third"]);

        const second = history.find(({ values, next }) => values.note === long("second") && next.length === 0);
        const input = { note: long("forked") };
        await t.client.runs.wait(thread_id, "note", { input, checkpoint: second!.checkpoint });
        expect(entered.at(-1)).toBe("forked");
        expect(await t.client.threads.getState(thread_id)).toMatchObject({ values: input, next: [] });
      });
    },
  );
});
