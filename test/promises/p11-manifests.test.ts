// P11: who has the bucket can read a conversation without perdure. Each run has a manifest that lists the messages it added, in
// order, with where their bodies are, and links the one before; the run record says where. It follows each move.
import { gunzipSync } from "node:zlib";
import { AIMessage, type AIMessageFields, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import type { RunId, TenantId, ThreadId } from "../../src/core/ids.js";
import { deleteThread } from "../../src/engine/commands/delete-thread.js";
import { pruneThread } from "../../src/engine/commands/prune-thread.js";
import { type MoveStep, moveThread } from "../../src/engine/move-thread.js";
import { repackThread } from "../../src/engine/repack-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";

const long = (text: string) => `${text} ${"lorem ipsum ".repeat(150)}`;
const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
const text = (message: BaseMessage | undefined) => String(message?.content).split(" ").slice(0, 2).join(" ");

/** Calls a tool, then answers; what it says is about the last human message. */
const agent = new StateGraph(MessagesAnnotation)
  .addNode("agent", ({ messages }) => {
    const asked = messages.findLast((message) => message.getType() === "human");
    // LangChain's types take the empty object for the one without usage.
    const common: Pick<AIMessageFields, never> = {
      usage_metadata: usage,
      response_metadata: { model_name: "test-model" },
    };
    if (messages.at(-1)?.getType() === "tool") {
      return {
        messages: [new AIMessage({ content: `answer to ${text(asked)}`, ...common })],
      };
    }
    const tool_calls = [
      { name: "look", args: { about: text(asked) }, id: `call ${text(asked)}`, type: "tool_call" as const },
    ];
    return { messages: [new AIMessage({ content: "", tool_calls, ...common })] };
  })
  .addNode("tools", ({ messages }) => {
    const [call] = (messages.at(-1) as AIMessage).tool_calls ?? [];
    return {
      messages: [new ToolMessage({ content: long(`found ${call?.id}`), tool_call_id: call?.id ?? "", name: "look" })],
    };
  })
  .addEdge(START, "agent")
  .addConditionalEdges("agent", ({ messages }) =>
    ((messages.at(-1) as AIMessage).tool_calls ?? []).length > 0 ? "tools" : END,
  )
  .addEdge("tools", "agent")
  .compile();

type Entry = Readonly<{ type: string; sha256: string; uri: string; bodies: { sha256: string; uri: string }[] }>;
type Manifest = Readonly<{ run_id: string; previous: string | null; messages: Entry[]; tool_results: Entry[] }>;
type Record_ = Readonly<Record<string, unknown>> &
  Readonly<{ messages_uri: string | null; tool_results_uri: string | null }>;

async function say(t: TestEngine, threadId: string, content: string, then: Readonly<Record<string, unknown>> = {}) {
  const { run_id } = await t.client.runs.create(threadId, "agent", {
    input: { messages: [{ type: "human", content }] },
    ...then,
  });
  await t.client.runs.join(threadId, run_id);
  return run_id;
}

async function recordOf(t: TestEngine, threadId: string, runId: string): Promise<Record_> {
  const answer = await t.app.request(`/threads/${threadId}/runs/${runId}/record`);
  expect(answer.status).toBe(200);
  return (await answer.json()) as Record_;
}

/** What lies at a URI, as somebody without perdure gets at it. */
async function at(t: TestEngine, uri: string): Promise<Buffer> {
  const { bodies } = t.deps;
  expect(uri.startsWith(`${bodies.uri}/`)).toBe(true);
  return Buffer.from(await bodies.read(uri.slice(bodies.uri.length + 1).split("#")[0] ?? ""));
}
async function manifestAt(t: TestEngine, uri: string | null): Promise<Manifest> {
  return JSON.parse((await at(t, uri ?? "")).toString("utf8")) as Manifest;
}
/** The text of a body: `zcat <pack> | grep <sha256>`. */
async function bodyAt(t: TestEngine, { uri, sha256 }: Readonly<{ uri: string; sha256: string }>): Promise<string> {
  expect(uri.endsWith(`.jsonl.gz#${sha256}`)).toBe(true);
  const lines = gunzipSync(await at(t, uri))
    .toString("utf8")
    .trimEnd()
    .split("\n");
  const found = lines.map((line) => JSON.parse(line) as { h?: string; d?: string }).find(({ h }) => h === sha256);
  return found?.d ?? "";
}
async function read(t: TestEngine, { messages }: Manifest): Promise<string[]> {
  const texts = [];
  for (const entry of messages) {
    const whole = [await bodyAt(t, entry)];
    for (const body of entry.bodies) whole.push(await bodyAt(t, body));
    texts.push(`${entry.type}: ${whole.join(" ")}`);
  }
  return texts;
}

async function objects({ deps }: TestEngine, threadId: string, ending = ""): Promise<string[]> {
  const keys = [];
  for await (const key of deps.bodies.list(`default/${threadId}/`)) if (key.endsWith(ending)) keys.push(key);
  return keys;
}
const moveAll = async (t: TestEngine) => {
  while ((await t.move()) > 0);
};
const keyOf = (threadId: string) => ({ tenantId: "default" as TenantId, threadId: threadId as ThreadId });

test("each run's manifest lists what it added, and all of them together the conversation, forks too", async () => {
  await withEngine({ graphs: { agent } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const runs: string[] = [];
    // The third turn makes the list long enough for a tree; the fifth closes groups of it.
    for (const turn of [1, 2, 3, 4, 5]) {
      runs.push(await say(t, thread_id, turn % 2 === 0 ? long(`turn ${turn}`) : `turn ${turn}`));
      if (turn !== 4) await moveAll(t);
    }
    let next: string | null = (await recordOf(t, thread_id, runs[4] ?? "")).messages_uri;
    expect(next).toMatch(/\.json#\/messages$/);
    for (const turn of [5, 4, 3, 2, 1]) {
      const manifest = await manifestAt(t, next);
      expect(manifest.run_id).toBe(runs[turn - 1]);
      expect(manifest.messages.map(({ type }) => type)).toEqual(["human", "ai", "tool", "ai"]);
      const [human, call, tool, answer] = await read(t, manifest);
      expect(human).toContain(`turn ${turn}`);
      expect(call).toContain(`call turn ${turn}`);
      expect(tool).toContain(long(`found call turn ${turn}`));
      expect(answer).toContain(`answer to turn ${turn}`);
      expect(manifest.tool_results).toEqual([manifest.messages[2]]);
      expect(manifest.messages[2]).toMatchObject({ tool_call_id: `call turn ${turn}`, name: "look" });
      expect(manifest.messages[3]).toMatchObject({ usage_metadata: usage, model: "test-model" });
      next = manifest.previous;
    }
    expect(next).toBe(null);

    // From the end of the second turn, which the third is no part of.
    const history = await t.client.threads.getHistory<{ messages: unknown[] }>(thread_id, { limit: 100 });
    const second = history.find(({ values, next: open }) => values.messages?.length === 8 && open.length === 0);
    const forked = await say(t, thread_id, "turn 6", { checkpoint: second?.checkpoint });
    await moveAll(t);
    const manifest = await manifestAt(t, (await recordOf(t, thread_id, forked)).messages_uri);
    expect((await read(t, manifest))[0]).toContain("turn 6");
    expect(manifest.messages).toHaveLength(4);
    expect((await manifestAt(t, manifest.previous)).run_id).toBe(runs[1]);
    expect(await objects(t, thread_id, ".json")).toHaveLength(6);
  });
});

test("the run record says what is known, before the move and after it", async () => {
  await withEngine({ graphs: { agent } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await say(t, thread_id, "turn 1");
    const run_id = await say(t, thread_id, "turn 2");
    const before = await recordOf(t, thread_id, run_id);
    expect(before).toEqual({
      ...{
        run_id,
        tenant_id: "default",
        thread_id,
        assistant_id: expect.any(String),
        assistant_version: 1,
        agent_version: expect.anything(),
      },
      ...{ model: "test-model", current_step: "finished", status: "success", attempt: 1 },
      ...{ messages_uri: null, tool_results_uri: null, plan: [], pending_approval: null, needs_attention: null },
      ...{
        cost_so_far: null,
        token_so_far: 30,
        budget: null,
        seed: expect.any(Number),
        effects: expect.any(Array),
        result_uri: null,
        trace_id: null,
        error: null,
        ended_by: null,
        pinned_to: null,
      },
      ...{ created_at: expect.any(String), updated_at: expect.any(String) },
    });
    await moveAll(t);
    const after = await recordOf(t, thread_id, run_id);
    const [messages_uri, tool_results_uri, result_uri] = [
      /\.json#\/messages$/,
      /\.json#\/tool_results$/,
      /\.jsonl\.gz#/,
    ];
    const uris = { messages_uri, tool_results_uri, result_uri };
    expect(after).toEqual({
      ...before,
      ...Object.fromEntries(Object.entries(uris).map(([name, form]) => [name, expect.stringMatching(form) as string])),
    });
    const checkpointId = String(after["result_uri"]).split("#")[1];
    expect(gunzipSync(await at(t, String(after["result_uri"]))).toString("utf8")).toContain(`"id":"${checkpointId}"`);
    expect((await t.app.request(`/threads/${thread_id}/runs/${thread_id}/record`)).status).toBe(404);
  });
});

test("a mover that dies around a manifest leaves it to the next, and what it left is swept; erased with the thread", async () => {
  await withEngine({ graphs: { agent } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const key = keyOf(thread_id);
    const dies = (at: MoveStep) => ({
      reached: (step: MoveStep) => (step === at ? Promise.reject(new Error("died")) : undefined),
    });
    const runs: string[] = [];
    for (const step of ["committed", "manifest_announced", "manifest_uploaded", "manifest_placed"] as const) {
      runs.push(await say(t, thread_id, `turn ${runs.length + 1}`));
      await expect(moveThread(t.deps, key, { hooks: dies(step) })).rejects.toThrow("died");
      await moveThread(t.deps, key);
      const { messages_uri } = await recordOf(t, thread_id, runs.at(-1) ?? "");
      expect((await manifestAt(t, messages_uri)).run_id).toBe(runs.at(-1));
    }
    // Two uploads whose row never came: one announced without its object, one with it.
    expect(await objects(t, thread_id, ".json")).toHaveLength(5);
    await sweepOrphans(t.deps, { graceMs: 0 });
    expect(await objects(t, thread_id, ".json")).toHaveLength(4);

    // A rewritten manifest takes the place of the one before; another mover at the same time changes nothing.
    await t.deps.db.query("update runs set manifest_seq = null where thread_id = $1", [thread_id]);
    await Promise.all([moveThread(t.deps, key), moveThread(t.deps, key)]);
    let next: string | null = (await recordOf(t, thread_id, runs.at(-1) ?? "")).messages_uri;
    for (const run of runs.toReversed()) {
      const manifest: Manifest = await manifestAt(t, next);
      expect(manifest.run_id).toBe(run as RunId);
      next = manifest.previous;
    }
    await deleteThread(t.deps, key);
    expect(await objects(t, thread_id)).toEqual([]);
  });
});

test("a run that goes on with a copy lists the whole conversation, which no other manifest there does", async () => {
  await withEngine({ graphs: { agent } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    for (const turn of [1, 2]) await say(t, thread_id, `turn ${turn}`);
    await moveAll(t);
    const { thread_id: copy } = await t.client.threads.copy(thread_id);
    const runs = [await say(t, copy, "turn 3"), await say(t, copy, "turn 4")];
    await moveAll(t);
    await t.client.threads.delete(thread_id);
    const last = await manifestAt(t, (await recordOf(t, copy, runs[1] ?? "")).messages_uri);
    expect((await read(t, last))[0]).toContain("turn 4");
    const first = await manifestAt(t, last.previous);
    expect(first).toMatchObject({ run_id: runs[0], previous: null });
    const texts = await read(t, first);
    expect(texts.filter((_, i) => i % 4 === 0)).toEqual(
      [1, 2, 3].map((turn) => expect.stringContaining(`turn ${turn}`)),
    );
    expect(last.messages).toHaveLength(4);
  });
});

test("after a prune the manifests list what is kept, where it is, and nothing that is gone", async () => {
  await withEngine({ graphs: { agent } }, async (t) => {
    // A pack of which most stays isn't written anew; one of which little stays is.
    for (const before of [20, 0]) {
      const { thread_id } = await t.client.threads.create();
      const key = keyOf(thread_id);
      const prune = (keepLatest: number) => {
        const policy = { keepLatest, olderThanMs: null, outcomes: null };
        return pruneThread(t.deps, { ...t.engine.edits, ...key, policy, thorough: true, dryRun: false });
      };
      const history = Array.from({ length: before }, (_, n) => ({ type: "human", content: long(`before ${n}`) }));
      const runs = [
        await say(t, thread_id, "turn 1", { input: { messages: [...history, { type: "human", content: "turn 1" }] } }),
      ];
      await moveAll(t);
      expect(await prune(1_000)).toBe(null);
      for (const turn of [2, 3]) {
        runs.push(await say(t, thread_id, `turn ${turn}`));
        await moveAll(t);
      }
      const ofLastRun = 5;
      expect(await prune(ofLastRun)).not.toBe(null);
      await repackThread(t.deps, key, { graceMs: 0 });
      await sweepOrphans(t.deps, { graceMs: 0 });
      const lists = await Promise.all(runs.map(async (run) => (await recordOf(t, thread_id, run)).messages_uri));
      expect(lists).toEqual([null, null, expect.any(String)]);
      expect(await objects(t, thread_id, ".json")).toHaveLength(1);
      const manifest = await manifestAt(t, lists[2] ?? null);
      expect(manifest.previous).toBe(null);
      const texts = await read(t, manifest);
      expect(texts).toHaveLength(before + 12);
      for (const turn of [1, 2, 3]) expect(texts[before + 4 * turn - 2]).toContain(long(`found call turn ${turn}`));
      expect(await prune(ofLastRun)).toBe(null);
    }
  });
});
