import { randomUUID } from "node:crypto";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  getConfig,
  getWriter,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { BodyStore } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";

const lookup = tool(() => "42", {
  name: "lookup",
  description: "",
  schema: { type: "object", properties: {} },
});

/** agent (streams "abc") -> tools, which looks something up */
const agent = new StateGraph(MessagesAnnotation)
  .addNode("agent", async ({ messages }, config) => {
    const model = new FakeListChatModel({ responses: ["abc"] });
    const { content, id } = await model.invoke(messages, config);
    const tool_calls = [{ name: "lookup", id: `call-${messages.length}`, args: {}, type: "tool_call" as const }];
    return { messages: [new AIMessage({ content, id: id ?? randomUUID(), tool_calls })] };
  })
  .addNode("tools", async ({ messages }, config) => {
    const call = (messages.at(-1) as AIMessage).tool_calls?.[0];
    return { messages: [await lookup.invoke({ ...call, type: "tool_call" } as never, config)] };
  })
  .addEdge(START, "agent")
  .addEdge("agent", "tools");

/** Asks once, then says what the answer was. */
const gate = new StateGraph(Annotation.Root({ answer: Annotation<unknown> }))
  .addNode("gate", () => ({ answer: interrupt({ sure: true }) }))
  .addEdge(START, "gate");

class Boo extends Error {
  override readonly name = "Boo";
}
const failing = new StateGraph(Annotation.Root({ n: Annotation<number> }))
  .addNode("fail", () => {
    throw new Boo("no luck");
  })
  .addEdge(START, "fail");

/** Waits until the test lets it go, or it is aborted. */
const doors = new Map<string, () => void>();
const waiting = new StateGraph(Annotation.Root({ key: Annotation<string>, seen: Annotation<unknown> }))
  .addNode("wait", async ({ key }, config) => {
    getWriter()?.({ waits: key });
    await new Promise<void>((resolve, reject) => {
      doors.set(key, resolve);
      config.signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
    return { seen: getConfig().configurable?.["x-color"] ?? null };
  })
  .addEdge(START, "wait");

const graphs = { agent, gate, failing, waiting };
const hello = { messages: [{ type: "human", content: "hi", id: "m1" }] };

type Part = { id?: string; event: string; data: unknown };
async function all(stream: AsyncIterable<unknown>): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of stream) parts.push(part as Part);
  return parts;
}
const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});
async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await check())) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe("a stream", () => {
  it.each([
    ["values", ["metadata", "values"]],
    ["updates", ["metadata", "updates"]],
    ["messages-tuple", ["messages", "metadata"]],
    ["messages", ["messages/complete", "messages/metadata", "messages/partial", "metadata"]],
    ["events", ["events", "metadata"]],
    ["debug", ["debug", "metadata"]],
    ["tasks", ["metadata", "tasks"]],
    ["checkpoints", ["checkpoints", "metadata"]],
    ["tools", ["metadata", "tools"]],
  ] as const)("in mode %s holds its events, numbered without a gap, and ends", async (mode, events) => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const parts = await all(client.runs.stream(thread_id, "agent", { input: hello, streamMode: [mode] }));
      expect([...new Set(parts.map(({ event }) => event))].sort()).toEqual(events);
      expect(parts.map(({ id }) => id)).toEqual(parts.map((_, n) => String(n)));
      expect(parts[0]?.data).toMatchObject({ attempt: 1, run_id: expect.any(String) });
    });
  });

  it("has the frames, headers and content type that clients read", async () => {
    await withEngine({ graphs }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      const response = await app.request(
        `/threads/${thread_id}/runs/stream`,
        post({ assistant_id: "agent", input: hello }),
      );
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
      const [, runId] = /^\/threads\/[^/]+\/runs\/([^/]+)$/.exec(response.headers.get("content-location") ?? "") ?? [];
      expect(runId).toBeDefined();
      expect(response.headers.get("location")).toBe(`/threads/${thread_id}/runs/${runId}/stream?last_event_id=-1`);
      const frames = (await response.text()).split("\n\n").filter((frame) => frame !== "");
      expect(frames[0]).toBe(`event: metadata\ndata: {"run_id":"${runId}","attempt":1}\nid: 0`);
      expect(frames.every((frame) => /^event: values\ndata: .*\nid: \d+$/.test(frame) || frame === frames[0])).toBe(
        true,
      );
    });
  });

  it("replayed is equal to what was sent, from any id on, also once it was moved to the object store", async () => {
    await withEngine({ graphs }, async ({ client, deps, move }) => {
      const { thread_id } = await client.threads.create();
      const modes = ["values", "messages-tuple", "updates"] as const;
      const sent = await all(client.runs.stream(thread_id, "agent", { input: hello, streamMode: [...modes] }));
      const runId = (sent[0]?.data as { run_id: string }).run_id;
      const join = (lastEventId: string) => all(client.runs.joinStream(thread_id, runId, { lastEventId }));
      expect(await join("-1")).toEqual(sent);
      expect(await join("3")).toEqual(sent.slice(4));
      await until(async () => {
        await move();
        const { rows } = await deps.db.query<{ left: number }>(
          "select count(*)::int as left from stream_chunks where run_id = $1",
          [runId],
        );
        return rows[0]?.left === 0;
      });
      expect(await join("-1")).toEqual(sent);
      expect(await join("3")).toEqual(sent.slice(4));
    });
  });

  it("waits while the object store that has its events is away, and says so when they are lost", async () => {
    await withEngine({ graphs }, async ({ engine, client, deps, move }) => {
      const { thread_id } = await client.threads.create();
      const sent = await all(client.runs.stream(thread_id, "agent", { input: hello }));
      const { run_id } = sent[0]?.data as { run_id: string };
      await until(async () => (await move()) === 0);
      let [away, refused] = [true, 0];
      const read: BodyStore["read"] = (...args) => {
        if (!away) return deps.bodies.read(...args);
        refused += 1;
        return Promise.reject(new EngineError("unavailable", "The object store is away"));
      };
      const shaky = createApp({ ...engine, deps: { ...deps, bodies: { ...deps.bodies, read } } });
      const path = `/threads/${thread_id}/runs/${run_id}/stream?last_event_id=-1`;
      const waiting = (await shaky.request(path)).text();
      await until(async () => refused > 0);
      away = false;
      expect((await waiting).match(/^id: /gm)).toHaveLength(sent.length);

      for await (const key of deps.bodies.list(`default/${thread_id}/`)) await deps.bodies.delete([key]);
      const lost = await (await shaky.request(path)).text();
      expect(lost).toMatch(/^event: error\ndata: {"error":"body_missing","message":"[^"]*jsonl\.gz is not in/);
    });
  });

  it("joined without an id ends at once when the run has ended, and is filtered by mode when asked", async () => {
    await withEngine({ graphs }, async ({ client, app }) => {
      const { thread_id } = await client.threads.create();
      const sent = await all(
        client.runs.stream(thread_id, "agent", { input: hello, streamMode: ["values", "updates"] }),
      );
      const runId = (sent[0]?.data as { run_id: string }).run_id;
      expect(await all(client.runs.joinStream(thread_id, runId))).toEqual([]);
      const response = await app.request(`/threads/${thread_id}/runs/${runId}/stream?stream_mode=updates`, {
        headers: { "Last-Event-ID": "-1" },
      });
      const events = [...(await response.text()).matchAll(/^event: (.*)$/gm)].map(([, event]) => event);
      expect([...new Set(events)]).toEqual(["metadata", "updates"]);
    });
  });

  it("ends with the question, which can be answered as soon as it is seen", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      let answered: unknown;
      for await (const part of client.runs.stream(thread_id, "gate", {
        input: {},
        streamMode: ["values", "updates"],
      })) {
        const { event, data } = part as unknown as Part;
        if (event !== "values" || !("__interrupt__" in (data as object))) continue;
        expect(data).toEqual({
          __interrupt__: [{ id: expect.stringMatching(/^[0-9a-f]{32}$/), value: { sure: true } }],
        });
        answered = await client.runs.wait(thread_id, "gate", { command: { resume: "yes" } });
      }
      expect(answered).toEqual({ answer: "yes" });
    });
  });

  it("ends with the error", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const parts = await all(
        client.runs.stream(thread_id, "failing", { input: { n: 1 }, streamMode: ["debug", "events"] }),
      );
      expect(parts.at(-1)).toMatchObject({ event: "error", data: { error: "Boo", message: "no luck" } });
    });
  });

  it("ends by saying why when the run is cancelled", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const key = randomUUID();
      const parts: Part[] = [];
      for await (const part of client.runs.stream(thread_id, "waiting", { input: { key }, streamMode: ["custom"] })) {
        parts.push(part);
        if ((part as unknown as Part).event !== "custom") continue;
        await client.runs.cancel(thread_id, (parts[0]?.data as { run_id: string }).run_id);
      }
      expect(parts.map(({ event }) => event)).toEqual(["metadata", "custom", "metadata"]);
      expect(parts.at(-1)?.data).toMatchObject({ attempt: 1, cancel_reason: "cancelled by a client" });
      expect(await client.threads.get(thread_id)).toMatchObject({ status: "idle" });
    });
  });

  it.each([
    ["cancel", "interrupted"],
    ["continue", "success"],
  ] as const)("whose client leaves with on_disconnect %s: the run ends as %s", async (onDisconnect, status) => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const key = randomUUID();
      const leave = new AbortController();
      const options = { input: { key }, streamMode: ["custom" as const], onDisconnect, signal: leave.signal };
      const stream = client.runs.stream(thread_id, "waiting", options);
      const runId = ((await stream.next()).value as { data: { run_id: string } }).data.run_id;
      await stream.next();
      leave.abort();
      await stream.next().catch(() => undefined);
      if (onDisconnect === "continue") doors.get(key)?.();
      await until(async () => (await client.runs.get(thread_id, runId)).status === status);
    });
  });
});

describe("waiting for a run", () => {
  it("gives its final values, its question or its error", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const threads = await Promise.all([1, 2, 3].map(() => client.threads.create()));
      const [a = "", b = "", c = ""] = threads.map(({ thread_id }) => thread_id);
      expect(await client.runs.wait(a, "agent", { input: hello })).toMatchObject({
        messages: [{ type: "human" }, { type: "ai", content: "abc" }, { type: "tool", content: "42" }],
      });
      expect(await client.runs.wait(b, "gate", { input: {} })).toMatchObject({
        __interrupt__: [{ value: { sure: true } }],
      });
      await expect(client.runs.wait(c, "failing", { input: { n: 1 } })).rejects.toThrow("Boo: no luck");
      expect(await client.runs.wait(c, "failing", { input: { n: 1 }, raiseError: false })).toEqual({
        __error__: { error: "Boo", message: "no luck" },
      });
    });
  });

  it("keeps the connection busy and answers JSON", async () => {
    await withEngine({ graphs }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      const key = randomUUID();
      const body = { assistant_id: "waiting", input: { key } };
      const response = await app.request(`/threads/${thread_id}/runs/wait`, post(body, { "x-color": "blue" }));
      const reader = response.body?.getReader();
      const first = await reader?.read();
      expect(Buffer.from(first?.value ?? []).toString()).toBe("\n");
      doors.get(key)?.();
      let text = "";
      for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
        text += Buffer.from(next.value).toString();
      }
      expect(JSON.parse(text)).toEqual({ key, seen: "blue" });
      expect(response.headers.get("content-location")).toMatch(new RegExp(`^/threads/${thread_id}/runs/`));
    });
  });

  it("joins a run that ended with that run's own result, though the thread went on", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const first = await client.runs.create(thread_id, "agent", { input: hello });
      const result = await client.runs.join(thread_id, first.run_id);
      await client.runs.wait(thread_id, "agent", { input: { messages: [{ type: "human", content: "more" }] } });
      expect(await client.runs.join(thread_id, first.run_id)).toEqual(result);
      expect(result).toMatchObject({ messages: { length: 3 } });
    });
  });

  it("tells a client that shows the state it ended in nothing more, and any other the whole of it", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const { run_id } = await client.runs.create(thread_id, "agent", { input: hello });
      await client.runs.join(thread_id, run_id);
      const states = await client.threads.getHistory(thread_id);
      const [head, before] = states.map(({ checkpoint }) => checkpoint.checkpoint_id ?? "");
      const told = async (checkpointId: string | undefined, lastEventId = "-1") =>
        all(client.runs.joinStream(thread_id, run_id, { lastEventId, ...(checkpointId && { checkpointId }) }));
      const whole = await told(undefined);
      expect(whole.length).toBeGreaterThan(2);
      expect(await told(head)).toEqual([]);
      expect(await told(before)).toEqual(whole);
      expect(await told(randomUUID())).toEqual(whole);
      expect(await told(head, "0")).toEqual(whole.slice(1));
      await expect(told("head")).rejects.toThrow("checkpoint_id: must be a UUID");
    });
  });
});

describe("a run without a thread", () => {
  it("streams, waits and can be joined; its thread is nobody's", async () => {
    await withEngine({ graphs }, async ({ client, app }) => {
      const parts = await all(client.runs.stream(null, "agent", { input: hello }));
      expect(parts.at(-1)).toMatchObject({ event: "values", data: { messages: { length: 3 } } });
      expect(await client.runs.wait(null, "agent", { input: hello })).toMatchObject({ messages: { length: 3 } });
      const run = await client.runs.create(null, "agent", { input: hello });
      expect(await client.runs.join(run.thread_id, run.run_id)).toMatchObject({ messages: { length: 3 } });
      await expect(client.threads.get(run.thread_id)).rejects.toThrow("404");
      const replay = await app.request(`/runs/${run.run_id}/stream`, { headers: { "Last-Event-ID": "-1" } });
      expect(await replay.text()).toContain("event: values");
      expect(
        (await app.request("/runs", post({ assistant_id: "agent", input: hello }))).headers.get("content-location"),
      ).toMatch(/^\/runs\/[0-9a-f-]{36}$/);
    });
  });
});

describe("runs of a thread", () => {
  it("are listed newest first, by page, status and field, with what they were asked", async () => {
    await withEngine({ graphs }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "agent", { input: hello, metadata: { n: 1 } });
      const later = await client.runs.create(thread_id, "agent", {
        input: hello,
        afterSeconds: 60,
        metadata: { n: 2 },
      });
      const list = (options?: Parameters<typeof client.runs.list>[1]) => client.runs.list(thread_id, options);
      expect((await list()).map(({ status }) => status)).toEqual(["pending", "success"]);
      expect(await list({ status: "pending" })).toMatchObject([
        { run_id: later.run_id, multitask_strategy: "enqueue" },
      ]);
      expect(await list({ limit: 1, offset: 1 })).toMatchObject([{ status: "success" }]);
      const [picked] = await list({ select: ["run_id", "kwargs"] } as never);
      expect(Object.keys(picked ?? {}).sort()).toEqual(["kwargs", "run_id"]);
      expect(picked).toMatchObject({ kwargs: { input: hello, stream_mode: ["values"] } });
      const labelled = async (metadata: string) =>
        app.request(`/threads/${thread_id}/runs?select=metadata&metadata=${encodeURIComponent(metadata)}`);
      expect(await (await labelled('{"n":2}')).json()).toMatchObject([{ metadata: { n: 2 } }]);
      expect(await (await labelled('{"n":3}')).json()).toEqual([]);
      for (const wrong of ["2", "[]", "{", '{"n":"\\u0000"}'])
        expect([wrong, (await labelled(wrong)).status]).toEqual([wrong, 422]);
      await client.runs.cancel(thread_id, later.run_id);
      expect(await client.runs.get(thread_id, later.run_id)).toMatchObject({
        status: "interrupted",
        cancel_reason: "cancelled by a client",
        metadata: { n: 2 },
      });
    });
  });

  it("answer a cancel with 202, or 204 when it was to be waited for", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ client, app }) => {
      const { thread_id } = await client.threads.create();
      const cancel = async (query: string) => {
        const { run_id } = await client.runs.create(thread_id, "agent", { input: hello });
        return (await app.request(`/threads/${thread_id}/runs/${run_id}/cancel?${query}`, { method: "POST" })).status;
      };
      expect(await cancel("wait=0")).toBe(202);
      expect(await cancel("wait=1&action=interrupt")).toBe(204);
      expect(await cancel("wait=1&action=rollback")).toBe(204);
      expect(await cancel("action=explode")).toBe(422);
      expect(await cancel("wait=perhaps")).toBe(422);
    });
  });

  it("wait their turn by default, and are refused with 422 when asked to", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ client, app }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.create(thread_id, "agent", { input: hello });
      expect(await client.runs.create(thread_id, "agent", { input: hello })).toMatchObject({ status: "pending" });
      const body = { assistant_id: "agent", input: hello, multitask_strategy: "reject" };
      const refused = await app.request(`/threads/${thread_id}/runs`, post(body));
      expect([refused.status, await refused.text()]).toEqual([
        422,
        "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
      ]);
    });
  });

  it("fork from a checkpoint, wherever the request names it", async () => {
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "agent", { input: hello });
      const history = await client.threads.getHistory<{ messages: unknown[] }>(thread_id);
      const before = history.find(({ next }) => next[0] === "tools");
      const checkpointId = before?.checkpoint.checkpoint_id ?? "";
      for (const where of [
        { checkpointId },
        { checkpoint: { checkpoint_id: checkpointId, checkpoint_ns: "", checkpoint_map: null } },
        { config: { configurable: { checkpoint_id: checkpointId } } },
      ]) {
        const values = await client.runs.wait(thread_id, "agent", { input: null, ...where });
        expect(values).toMatchObject({ messages: { length: 3 } });
      }
      const forks = await client.threads.getHistory(thread_id, { limit: 100 });
      const children = forks.filter((state) => state.parent_checkpoint?.checkpoint_id === checkpointId);
      expect(children.length).toBeGreaterThanOrEqual(4);
    });
  });
});

describe("what can't be meant is refused by name, and leaves nothing behind", () => {
  const refusals: [name: string, body: unknown, status: number, says: RegExp][] = [
    ["no JSON", "{", 400, /not valid JSON/],
    ["no object", [], 422, /expected object/],
    ["no assistant", {}, 422, /assistant_id/],
    ["unknown assistant", { assistant_id: "nobody" }, 404, /No assistant found for "nobody"/],
    ["unknown assistant id", { assistant_id: randomUUID() }, 404, /No assistant found for/],
    ["NUL in the assistant", { assistant_id: "a\u0000" }, 422, /assistant_id: must not contain NUL/],
    ["NUL in metadata", { assistant_id: "agent", metadata: { a: { "b\u0000": 1 } } }, 422, /metadata\.a\.b.*NUL/],
    ["wrong type", { assistant_id: "agent", metadata: "x" }, 422, /metadata/],
    ["wrong mode", { assistant_id: "agent", stream_mode: ["values", "value"] }, 422, /stream_mode.*messages-tuple/],
    ["wrong command", { assistant_id: "agent", command: { goto: 1 } }, 422, /command\.goto/],
    [
      "wrong recursion limit",
      { assistant_id: "agent", config: { recursion_limit: "many" } },
      422,
      /config\.recursion_limit/,
    ],
    ["engine's own keys", { assistant_id: "agent", config: { configurable: { __pregel_x: 1 } } }, 422, /__pregel_x/],
    [
      "checkpoint that is no id",
      { assistant_id: "agent", checkpoint_id: "last" },
      422,
      /checkpoint_id: must be a UUID/,
    ],
    [
      "checkpoint of another thread",
      { assistant_id: "agent", checkpoint: { thread_id: randomUUID() } },
      422,
      /checkpoint\.thread_id/,
    ],
    [
      "checkpoint that isn't there",
      { assistant_id: "agent", checkpoint_id: randomUUID() },
      404,
      /Checkpoint [\w-]+ not found on thread/,
    ],
    [
      "checkpoint in the config that isn't there",
      { assistant_id: "agent", config: { configurable: { checkpoint_id: randomUUID(), checkpoint_ns: "a:b" } } },
      404,
      /not found on thread .* in "a:b"/,
    ],
    [
      "checkpoint in the config that is no id",
      { assistant_id: "agent", config: { configurable: { checkpoint_id: 5 } } },
      422,
      /config\.configurable\.checkpoint_id/,
    ],
    [
      "unknown node",
      { assistant_id: "gate", command: { goto: "nowhere" } },
      422,
      /command\.goto: "nowhere" is no node of graph "gate"; it has gate/,
    ],
    [
      "unknown node among others",
      { assistant_id: "gate", command: { goto: ["gate", { node: "gat", input: {} }] } },
      422,
      /command\.goto\[1\]\.node: "gat" is no node of graph "gate"; did you mean "gate"\?/,
    ],
    [
      "breakpoint at an unknown node",
      { assistant_id: "gate", interrupt_before: ["gate", "gatr"] },
      422,
      /interrupt_before\[1\]: "gatr"/,
    ],
    ["empty command", { assistant_id: "gate", command: { resume: null, goto: [] } }, 422, /command: says nothing/],
    [
      "long metadata",
      { assistant_id: "agent", metadata: { a: "x".repeat(70_000) } },
      422,
      /metadata: must not be longer/,
    ],
    ["endless assistant", { assistant_id: "x".repeat(300) }, 422, /^assistant_id: .{1,80}$/],
    ["webhook", { assistant_id: "agent", webhook: "http://localhost/" }, 422, /webhook/],
    ["feedback keys", { assistant_id: "agent", feedback_keys: ["a"] }, 422, /feedback_keys/],
    ["unknown durability", { assistant_id: "agent", durability: "never" }, 422, /durability/],
    ["lax resume", { assistant_id: "agent", strict_resume: false }, 422, /strict_resume/],
    ["negative delay", { assistant_id: "agent", after_seconds: -1 }, 422, /after_seconds/],
    ["deleting a thread's run", { assistant_id: "agent", on_completion: "delete" }, 422, /on_completion/],
    ["leaving what isn't held", { assistant_id: "agent", on_disconnect: "cancel" }, 422, /on_disconnect/],
    ["resume of nothing", { assistant_id: "agent", command: { resume: "yes" } }, 409, /nothing is pending/i],
  ];

  it("in the body of a run", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ app, client, deps }) => {
      const { thread_id } = await client.threads.create();
      for (const [name, body, status, says] of refusals) {
        const response = await app.request(`/threads/${thread_id}/runs`, post(body));
        const text = await response.text();
        expect([name, response.status, text]).toEqual([name, status, expect.stringMatching(says)]);
      }
      const { rows } = await deps.db.query<{ runs: number }>("select count(*)::int as runs from runs");
      expect(rows[0]?.runs).toBe(0);
      expect(await client.threads.get(thread_id)).toMatchObject({ status: "idle" });
    });
  });

  it("a checkpoint of another thread, and an answer through another graph", async () => {
    await withEngine({ graphs }, async ({ app, client }) => {
      const [asking, other] = [await client.threads.create(), await client.threads.create()];
      await client.runs.wait(asking.thread_id, "gate", { input: {} });
      await client.runs.wait(other.thread_id, "agent", { input: hello });
      const { checkpoint } = await client.threads.getState(other.thread_id);
      const attempts: [unknown, number, RegExp][] = [
        [{ assistant_id: "gate", checkpoint_id: checkpoint.checkpoint_id }, 404, /not found on thread/],
        [{ assistant_id: "agent", command: { resume: "yes" } }, 409, /is of graph "gate"; graph "agent" can't take/],
      ];
      for (const [body, status, says] of attempts) {
        const response = await app.request(`/threads/${asking.thread_id}/runs`, post(body));
        expect([response.status, await response.text()]).toEqual([status, expect.stringMatching(says)]);
      }
      expect(await client.runs.list(asking.thread_id)).toHaveLength(1);
      expect(await client.threads.get(asking.thread_id)).toMatchObject({ status: "interrupted" });
      expect(await client.runs.wait(asking.thread_id, "gate", { command: { resume: "yes" } })).toMatchObject({
        answer: "yes",
      });
    });
  });

  it("in paths, queries and headers", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      const { run_id } = await client.runs.create(thread_id, "agent", { input: hello });
      const nobody = randomUUID();
      const answers: [string, number, RegExp, RequestInit?][] = [
        [`/threads/x/runs`, 422, /thread_id: must be a UUID/],
        [`/threads/${nobody}/runs`, 404, new RegExp(`Thread with ID ${nobody} not found`)],
        [`/threads/${nobody}/runs`, 404, new RegExp(nobody), post({ assistant_id: "agent" })],
        [`/threads/${thread_id}/runs/${nobody}`, 404, /Run not found/],
        [`/threads/${nobody}/runs/${run_id}`, 404, /Run not found/],
        [`/threads/${thread_id}/runs/${nobody}/join`, 404, /Run not found/],
        [`/threads/${thread_id}/runs/${nobody}/stream`, 404, /Run not found/],
        [`/threads/${thread_id}/runs?limit=0`, 422, /limit/],
        [`/threads/${thread_id}/runs?status=done`, 422, /status/],
        [`/threads/${thread_id}/runs?select=everything`, 422, /select/],
        [`/threads/${thread_id}/runs/${run_id}/stream?stream_mode=all`, 422, /stream_mode/],
        [`/threads/${thread_id}/runs/${run_id}/stream`, 422, /Last-Event-ID/, { headers: { "last-event-id": "x" } }],
        ["/runs", 422, /checkpoint_id/, post({ assistant_id: "agent", checkpoint_id: nobody })],
        ["/runs/batch", 422, /./, post([])],
        ["/runs/cancel", 422, /run_ids/, post({})],
        ["/runs/crons", 422, /schedule/, post({})],
        [`/threads/${thread_id}/runs/crons`, 422, /schedule/, post({})],
      ];
      for (const [path, status, says, init] of answers) {
        const response = await app.request(path, init);
        expect([path, response.status, await response.text()]).toEqual([path, status, expect.stringMatching(says)]);
      }
    });
  });

  it("unknown fields are let through and named", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      const body = { assistant_id: "agent", input: hello, newer: 1, config: { also: 2 }, checkpoint: null };
      const response = await app.request(`/threads/${thread_id}/runs`, post(body));
      expect(response.status).toBe(200);
      expect(response.headers.get("x-perdure-ignored-fields")).toBe("newer, config.also");
    });
  });
});

describe("approvals", () => {
  const ask = async ({ client }: TestEngine): Promise<string> => {
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "gate", { input: {} });
    return thread_id;
  };

  it("are listed with their question and decided once", async () => {
    await withEngine({ graphs }, async (engine) => {
      const { app, client } = engine;
      const thread_id = await ask(engine);
      await ask(engine);
      const list = async (query = "") =>
        (await app.request(`/v1/approvals${query}`)).json() as Promise<Record<string, unknown>[]>;
      expect(await list()).toHaveLength(2);
      const [approval] = await list(`?thread_id=${thread_id}`);
      expect(approval).toMatchObject({ thread_id, status: "pending", node: "gate", value: { sure: true } });
      const path = `/v1/approvals/${String(approval?.approval_id)}/decide`;
      const answers = await Promise.all(
        ["yes", "no", "yes", "no"].map((value) =>
          Promise.resolve(app.request(path, post({ value, decided_by: `says ${value}` }))),
        ),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
      const won = answers.find(({ status }) => status === 200);
      const run = (await won?.json()) as { run_id: string };
      const lost = await answers.find(({ status }) => status === 409)?.text();
      expect(lost).toMatch(/decided \((yes|no)\) by says (yes|no)/);
      expect(lost).toContain(run.run_id);
      const result = (await client.runs.join(thread_id, run.run_id)) as unknown as { answer: string };
      expect(["yes", "no"]).toContain(result.answer);
      expect(await list(`?thread_id=${thread_id}`)).toEqual([]);
      expect(await list(`?thread_id=${thread_id}&status=decided`)).toMatchObject([
        { decision: result.answer, value: null },
      ]);
      expect(await (await app.request(`/v1/approvals/${String(approval?.approval_id)}`)).json()).toMatchObject({
        status: "decided",
      });
    });
  });

  it("that aren't there, or without a value, are refused", async () => {
    await withEngine({ graphs, workers: 0 }, async ({ app }) => {
      const nobody = `/v1/approvals/${randomUUID()}`;
      expect((await app.request(nobody)).status).toBe(404);
      expect((await app.request(`${nobody}/decide`, post({ value: 1 }))).status).toBe(404);
      const empty = await app.request(`${nobody}/decide`, post({}));
      expect([empty.status, await empty.text()]).toEqual([422, expect.stringMatching(/^value: is required/)]);
      expect((await app.request("/v1/approvals?status=open")).status).toBe(422);
    });
  });
});

describe("breakpoints at nodes that a graph doesn't have", () => {
  it("stop nothing and are named, where no node has a name like it", async () => {
    await withEngine({ graphs }, async ({ app, client }) => {
      const { thread_id } = await client.threads.create();
      const asked = post({ assistant_id: "agent", input: hello, interrupt_before: ["tool_of_another"] });
      const response = await app.request(`/threads/${thread_id}/runs/wait`, asked);
      expect(response.status).toBe(200);
      expect(decodeURIComponent(response.headers.get("x-perdure-ignored-fields") ?? "")).toBe("interrupt_before[0]");
      const values = (await response.json()) as { messages: unknown[] };
      expect(values.messages.length).toBeGreaterThan(1);
    });
  });
});
