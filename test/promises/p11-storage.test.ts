// P11: storage grows with what is new, and bodies live in the object store: once the mover has run, no text of a conversation
// is in any Postgres table, the bucket holds it as JSON lines for gunzip, and everything reads back as it was.
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { randomUUID } from "node:crypto";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { searchTables } from "../helpers/search-tables.js";

/** A model that calls a tool, the tool, an answer; every text carries the mark, some are 20 bytes and some 5 KB. */
function chatGraph(mark: string) {
  const text = (what: string, turn: number) => {
    const short = `${mark} ${what} ${turn}`;
    return turn % 2 === 0 ? short : `${short} ${"lorem ipsum dolor ".repeat(280)}${mark}`;
  };
  type State = typeof MessagesAnnotation.State;
  const turnOf = ({ messages }: State) => messages.filter((message) => message.getType() === "human").length;
  return new StateGraph(MessagesAnnotation)
    .addNode("model", (state: State, config: LangGraphRunnableConfig) => {
      const turn = turnOf(state);
      for (const word of ["token", "of"]) config.writer?.({ [word]: text(word, turn) });
      const call = {
        name: "look",
        args: { query: text("argument", turn) },
        id: `call-${turn}`,
        type: "tool_call" as const,
      };
      return { messages: [new AIMessage({ content: text("thought", turn), tool_calls: [call] })] };
    })
    .addNode("tool", (state: State) => {
      const turn = turnOf(state);
      if (turn % 10 === 7) throw new Error(text("failure", turn));
      return { messages: [new ToolMessage({ content: text("result", turn), tool_call_id: `call-${turn}` })] };
    })
    .addNode("answer", (state: State) => ({ messages: [new AIMessage(text("answer", turnOf(state)))] }))
    .addEdge(START, "model")
    .addEdge("model", "tool")
    .addEdge("tool", "answer")
    .addEdge("answer", END)
    .compile();
}

async function converse({ client }: TestEngine, mark: string, turns: number) {
  const { thread_id } = await client.threads.create();
  for (let turn = 1; turn <= turns; turn++) {
    const content = turn % 2 === 0 ? `${mark} ${turn}` : `${mark} ${"sit amet ".repeat(600)} ${turn}`;
    const input = { messages: [{ type: "human", content }] };
    const streamMode = ["values", "updates", "custom"] as const;
    const stream = client.runs.stream(thread_id, "chat", { input, streamMode: [...streamMode] });
    for await (const event of stream) expect(event).toBeDefined();
  }
  return thread_id;
}

/** A client of another process: nothing is in its caches. */
function coldClient({ engine }: TestEngine): Client {
  const { db: sql, bodies } = engine.deps;
  const packs = createPackReader(bodies);
  const bodyReader = createBodyReader({ sql, bodies, packs, cacheBytes: 64 << 20 });
  const app = createApp({ ...engine, bodyReader });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } });
}

/** All that can be asked about the thread. */
async function everything(client: Client, threadId: string) {
  const runs = (await client.runs.list(threadId, { limit: 100 })).map((run) => run.run_id).reverse();
  const history = await client.threads.getHistory(threadId, { limit: 1_000 });
  const streams = [];
  for (const runId of [runs[0], runs[6]]) {
    const events = [];
    for await (const event of client.runs.joinStream(threadId, runId!, { lastEventId: "-1" })) events.push(event);
    streams.push(events);
  }
  const results = [];
  for (const runId of runs) results.push(await client.runs.join(threadId, runId));
  return { history, streams, results, state: await client.threads.getState(threadId) };
}

async function keepsThePromise(bodies: string, turns: number): Promise<void> {
  const mark = `mark-${randomUUID().slice(0, 8)}`;
  await withEngine({ graphs: { chat: chatGraph(mark) }, bodies, previews: false }, async (t) => {
    const threadId = await converse(t, mark, turns);
    const before = await everything(coldClient(t), threadId);
    expect(before.history.length).toBeGreaterThan(turns * 3);
    expect(before.streams.map((events) => events.length)).toEqual([expect.any(Number), expect.any(Number)]);
    expect(before.streams.every((events) => events.length > 5)).toBe(true);

    while ((await t.move()) > 0);
    expect(await searchTables(t.deps.db, mark)).toEqual([]);
    expect(await searchTables(t.deps.db, "lorem ipsum")).toEqual([]);
    const { rows } = await t.deps.db.query<Record<string, number>>(
      `select (select count(*) from channel_versions) + (select count(*) from checkpoint_writes)
        + (select count(*) from staged_bodies) + (select count(*) from stream_chunks) as content,
        (select max(pg_column_size(c.*)) from checkpoints c) as "rowBytes"`,
    );
    expect(rows[0]?.content).toBe(0);
    expect(rows[0]?.rowBytes).toBeLessThan(1_000);

    const texts: string[] = [];
    for await (const key of t.deps.bodies.list(`default/${threadId}/`)) {
      // Manifests name what is there and hold no text of it.
      if (key.endsWith(".json")) {
        expect(Buffer.from(await t.deps.bodies.read(key)).includes(mark)).toBe(false);
        continue;
      }
      expect(key).toMatch(/\.jsonl\.gz$/);
      const unpacked = gunzipSync(await t.deps.bodies.read(key)).toString("utf8");
      for (const line of unpacked.trimEnd().split("\n")) expect(JSON.parse(line)).toBeTypeOf("object");
      texts.push(unpacked);
    }
    const bucket = texts.join("");
    for (const what of ["thought", "argument", "result", "answer", "token", "of"]) {
      for (const turn of [1, 2, turns]) expect(bucket).toContain(`${mark} ${what} ${turn}`);
    }
    expect(bucket).toContain(`${mark} failure 7`);

    expect(await everything(coldClient(t), threadId)).toEqual(before);
    await t.client.runs.wait(threadId, "chat", { input: { messages: [{ type: "human", content: `${mark} more` }] } });
    const state = await t.client.threads.getState<{ messages: unknown[] }>(threadId);
    expect(state.values.messages.length).toBeGreaterThan(turns * 3);
  });
}

test("after 12 turns and a move, no text is in Postgres, all of it is in the folder, and all reads back equal", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "perdure-p11-"));
  await keepsThePromise(pathToFileURL(folder).href, 12).finally(() => rm(folder, { recursive: true, force: true }));
});
