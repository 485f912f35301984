// The thread protocol as the stock client speaks it, over SSE and over WebSockets.
import { randomUUID } from "node:crypto";
import { ProtocolSseTransportAdapter, ProtocolWebSocketTransportAdapter, ThreadStream } from "@langchain/langgraph-sdk";
import { Annotation, END, getWriter, interrupt, START, StateGraph } from "@langchain/langgraph";
import { createAgent, tool } from "langchain";
import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { z } from "zod";
import { createApp } from "../../src/api/app.js";
import { serveApi } from "../../src/api/server.js";
import type { TenantId } from "../../src/core/ids.js";
import { type EngineOptions, type TestEngine, withEngine } from "../helpers/engine.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const weather = tool(({ city }: { city: string }) => `foggy in ${city}`, {
  name: "weather",
  description: "the weather",
  schema: z.object({ city: z.string() }),
});
const agent = createAgent({
  model: new StreamingModel((messages) =>
    messages.at(-1)?.getType() === "human"
      ? { text: "", calls: [{ id: "call_1", name: "weather", args: { city: "SF" } }] }
      : { text: "it is foggy there" },
  ),
  tools: [weather],
});

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const inner = new StateGraph(Log)
  .addNode("ask", () => ({ log: [String(interrupt({ question: "go on?" }))] }))
  .addNode("after", () => ({ log: ["after"] }))
  .addEdge(START, "ask")
  .addEdge("ask", "after")
  .addEdge("after", END)
  .compile();
const asking = new StateGraph(Log)
  .addNode("before", () => {
    getWriter()?.({ name: "progress", payload: 1 });
    return { log: ["before"] };
  })
  .addNode("inner", inner)
  .addEdge(START, "before")
  .addEdge("before", "inner")
  .addEdge("inner", END)
  .compile();

const GO = { messages: [{ role: "user", content: "what is the weather in SF?" }] };
const transports = ["SSE", "WebSocket"] as const;
type Transport = (typeof transports)[number];

type Served = TestEngine &
  Readonly<{ open(transport: Transport, assistantId: string, threadId?: string): ThreadStream; url: string }>;

async function withServer(
  work: (served: Served) => Promise<void>,
  options: Partial<EngineOptions> = {},
): Promise<void> {
  await withEngine({ graphs: { agent, asking }, ...options }, async (engine) => {
    const server = await serveApi(engine.app, { port: 0 });
    const streams: ThreadStream[] = [];
    try {
      await work({
        ...engine,
        url: server.url,
        open(transport, assistantId, threadId = randomUUID()) {
          const stream = new ThreadStream(transportTo(server.url, transport, threadId), { assistantId });
          streams.push(stream);
          return stream;
        },
      });
    } finally {
      for (const stream of streams) await stream.close();
      await server.close({ graceMs: 0 });
    }
  });
}

function transportTo(apiUrl: string, transport: Transport, threadId: string) {
  if (transport === "SSE") return new ProtocolSseTransportAdapter({ apiUrl, threadId });
  const webSocketFactory = (url: string) => new WebSocket(url) as unknown as globalThis.WebSocket;
  return new ProtocolWebSocketTransportAdapter({ apiUrl, threadId, webSocketFactory });
}

type Event = Readonly<{
  event_id: string;
  seq: number;
  method: string;
  params: Readonly<{ namespace: string[]; timestamp: number; node?: string; data: Record<string, unknown> }>;
}>;
const ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];

/** What a new reader is shown, until `last` has come. */
async function replay(
  app: TestEngine["app"],
  threadId: string,
  last: (event: Event) => boolean,
  wanted: Record<string, unknown> = { channels: ALL },
): Promise<Event[]> {
  const gone = new AbortController();
  const request = new Request(`http://perdure.test/threads/${threadId}/stream/events`, {
    method: "POST",
    body: JSON.stringify(wanted),
    headers: { "content-type": "application/json" },
    signal: gone.signal,
  });
  const response = await app.fetch(request);
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const events: Event[] = [];
  let text = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done === true) throw new Error("the stream ended by itself");
    text += value;
    for (const frame of text.split("\n\n").slice(0, -1)) {
      const data = /^data: (.*)$/m.exec(frame)?.[1];
      if (data !== undefined) events.push(JSON.parse(data) as Event);
    }
    text = text.slice(text.lastIndexOf("\n\n") + 2);
    if (events.some(last)) break;
  }
  gone.abort();
  return events;
}

const ends = ({ method, params }: Event): boolean =>
  method === "lifecycle" &&
  params.namespace.length === 0 &&
  ["completed", "failed", "interrupted"].includes(String(params.data.event));

describe.each(transports)("the stock client over %s", (transport) => {
  it("gets states, tokens, tool calls and the end of a run on a thread that wasn't there before", async () => {
    await withServer(async ({ open }) => {
      const thread = open(transport, "agent");
      const raw = await thread.subscribe({ channels: ["messages"] });
      const pieces: string[] = [];
      const reading = (async () => {
        for await (const { params } of raw) pieces.push(String((params.data as { event: string }).event));
      })();
      const calls: unknown[] = [];
      const tools = (async () => {
        for await (const call of thread.toolCalls) calls.push([call.name, call.callId, await call.output]);
      })();
      const said: string[] = [];
      const messages = (async () => {
        for await (const message of thread.messages) said.push(await message.text);
      })();
      await thread.run.start({ input: GO });
      const output = (await thread.output) as { messages: { text: string }[] };
      await Promise.all([reading, tools, messages]);

      expect(output.messages.at(-1)?.text).toBe("it is foggy there");
      expect(pieces).toContain("message-start");
      expect(pieces.filter((piece) => piece === "content-block-delta").length).toBeGreaterThan(3);
      expect(calls[0]).toMatchObject(["weather", "call_1", expect.anything()]);
      expect(said).toContain("it is foggy there");
    });
  });

  it("answers a question inside a subgraph as soon as it is shown, and is told of the run that goes on", async () => {
    await withServer(async ({ open, client }) => {
      const thread = open(transport, "asking");
      await thread.run.start({ input: { log: [] } });
      await thread.output;
      expect(thread.interrupted).toBe(true);
      const [question] = thread.interrupts;
      expect(question?.payload).toEqual({ question: "go on?" });
      expect((await client.threads.get(thread.threadId)).status).toBe("interrupted");

      await thread.input.respond({
        namespace: question?.namespace ?? [],
        interrupt_id: question?.interruptId ?? "",
        response: "yes",
      });
      const status = async () => (await client.threads.get(thread.threadId)).status;
      await expect.poll(status, { timeout: 20_000 }).toBe("idle");
      const { values } = await thread.state.get({ namespace: [] });
      expect(values.log).toEqual(["before", "before", "yes", "after"]);
      const { tree } = (await thread.agent.getTree({})) as { tree: { graph_name: string; status: string } };
      expect(tree).toMatchObject({ graph_name: "asking", status: "completed", children: [{ graph_name: "inner" }] });
      await expect(
        thread.input.respond({ namespace: [], interrupt_id: question?.interruptId ?? "", response: "no" }),
      ).rejects.toMatchObject({ code: "no_such_interrupt" });
    });
  });

  it("begins with the current run: the end of an earlier one is never taken for that of the new", async () => {
    await withServer(async ({ open, app }) => {
      const first = open(transport, "agent");
      await first.run.start({ input: GO });
      await first.output;
      const second = open(transport, "agent", first.threadId);
      const { run_id: runId } = await second.run.start({
        input: { messages: [{ role: "user", content: "and now?" }] },
      });
      const output = (await second.output) as { messages: { content: unknown }[] };
      expect(output.messages).toHaveLength(8);

      const events = await replay(app, first.threadId, ends);
      expect(events.filter(ends)).toHaveLength(1);
      expect(events[0]).toMatchObject({ method: "lifecycle", event_id: expect.stringMatching(`^synth:${runId}:`) });
    });
  });
});

const long = createAgent({
  model: new StreamingModel(() => ({ text: Array.from({ length: 100 }, (_, n) => `w${n}`).join(" ") }), 15),
  tools: [],
});

it.each(transports)(
  "a client whose server goes finds all of its run at the next one, once, over %s",
  async (transport) => {
    await withEngine({ graphs: { long } }, async ({ app, anotherApp }) => {
      let server = await serveApi(app, { port: 0 });
      const thread = new ThreadStream(transportTo(server.url, transport, randomUUID()), { assistantId: "long" });
      try {
        const raw = await thread.subscribe({ channels: ["messages"] });
        let words = "";
        const reading = (async () => {
          for await (const { params } of raw) {
            const { delta } = params.data as { delta?: { text?: string } };
            words += delta?.text ?? "";
          }
        })();
        await thread.run.start({ input: GO });
        await expect.poll(() => words.length, { timeout: 20_000 }).toBeGreaterThan(20);
        const { port } = server;
        await server.close({ graceMs: 0 });
        server = await serveApi(anotherApp(), { port });
        const output = (await thread.output) as { messages: { text: string }[] };
        await reading;
        expect(words).toBe(Array.from({ length: 100 }, (_, n) => `w${n}`).join(" "));
        expect(output.messages.at(-1)?.text).toBe(words);
      } finally {
        await thread.close();
        await server.close({ graceMs: 0 });
      }
    });
  },
);

type Answered = Event & Readonly<{ id?: number; type: string; result?: { replayed_events: number } }>;

/** A client that sends all of this at once, and what it is told until `last` has come. */
async function overSocket(url: string, commands: readonly object[], last: (said: Answered) => boolean) {
  const socket = new WebSocket(url.replace("http", "ws"));
  const said: Answered[] = [];
  await new Promise<void>((resolve, reject) => {
    socket.on("open", () => commands.forEach((params, i) => socket.send(JSON.stringify({ id: i + 1, ...params }))));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
    socket.on("message", (data) => {
      said.push(JSON.parse(String(data)) as Answered);
      if (said.some(last)) resolve();
    });
  });
  socket.removeAllListeners("close").close();
  return said;
}

it("over a WebSocket a run's end is told when all subscriptions that come together have what was before it, and each hears how much that is", async () => {
  await withServer(async ({ open, url, deps }) => {
    const thread = open("SSE", "agent");
    await thread.run.start({ input: GO });
    await thread.output;
    const path = `${url}/threads/${thread.threadId}/stream/events`;
    const wanted = [["lifecycle"], ["lifecycle", "values"], ["messages"], ["updates", "tools", "tasks"]];
    const subscribe = wanted.map((channels) => ({ method: "subscription.subscribe", params: { channels } }));
    let reads = 0;
    const { query } = deps.db;
    Object.assign(deps.db, {
      query: (...args: Parameters<typeof query>) => {
        if (args[0].includes("from stream_chunks s")) reads += 1;
        return query(...args);
      },
    });
    for (let n = 0; n < 20; n += 1) {
      reads = 0;
      const said = await overSocket(path, subscribe, (event) => event.type === "event" && ends(event));
      const events = said.filter(({ type }) => type === "event");
      expect(events.filter(ends)).toHaveLength(1);
      expect(events.map(({ seq }) => seq)).toEqual(events.map(({ seq }) => seq).sort((a, b) => a - b));
      const answers = said.filter(({ type }) => type === "success");
      expect(answers.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
      const of = (channels: readonly string[]) => events.filter(({ method }) => channels.includes(method)).length;
      expect(answers.map(({ result }) => result?.replayed_events)).toEqual(wanted.map(of));
      expect(of(["values"])).toBeGreaterThan(2);
      // Nothing is read a second time to be counted.
      expect(reads).toBe(1);
    }
  });
});

it("over a WebSocket a subscription is answered at once where nothing has run, and sees all of the run that comes", async () => {
  await withServer(async ({ url }) => {
    const path = `${url}/threads/${randomUUID()}/stream/events`;
    const channels = ["lifecycle", "values"];
    const commands = [
      { method: "subscription.subscribe", params: { channels } },
      { method: "run.start", params: { assistant_id: "agent", input: GO } },
      { method: "subscription.subscribe", params: { channels: ["updates"] } },
      { method: "subscription.unsubscribe", params: { subscription_id: "none" } },
    ];
    const said = await overSocket(path, commands, (event) => event.type === "event" && ends(event));
    const answers = said.filter(({ type }) => type !== "event");
    expect(answers).toMatchObject([
      { id: 1, type: "success", result: { replayed_events: 0 } },
      { id: 2, type: "success" },
      { id: 3, type: "success" },
      { id: 4, type: "error", error: "no_such_subscription" },
    ]);
    expect(said.indexOf(answers[0] as Answered)).toBe(0);
    const methods = new Set(said.filter(({ type }) => type === "event").map(({ method }) => method));
    expect(methods).toEqual(new Set(["lifecycle", "values", "updates"]));
  });
});

it("tells every reader the same, in order, over any process, live and later, also when the stream has moved to the object store", async () => {
  await withServer(
    async ({ app, anotherApp, client, open, move }) => {
      const thread = open("SSE", "agent");
      await client.threads.create({ threadId: thread.threadId });
      const live = replay(app, thread.threadId, ends);
      await thread.run.start({ input: GO });
      const seen = await live;
      expect(seen.map(({ seq }) => seq)).toEqual([...seen].map(({ seq }) => seq).sort((a, b) => a - b));
      expect(new Set(seen.map(({ event_id }) => event_id)).size).toBe(seen.length);
      expect(seen[0]?.params.data).toEqual({ event: "running", graph_name: "agent" });
      expect(seen.filter(ends).map(({ params }) => params.data.event)).toEqual(["completed"]);
      expect(new Set(seen.map(({ method }) => method))).toEqual(
        new Set(["lifecycle", "checkpoints", "values", "updates", "messages", "tools", "tasks"]),
      );
      expect(await replay(anotherApp(), thread.threadId, ends)).toEqual(seen);
      await move();
      expect(await replay(anotherApp(), thread.threadId, ends)).toEqual(seen);
      const half = seen[Math.floor(seen.length / 2)]?.seq ?? 0;
      expect(await replay(app, thread.threadId, ends, { channels: ALL, since: half })).toEqual(
        seen.filter(({ seq }) => seq > half),
      );
    },
    { moveAfterMs: 0 },
  );
});

it("shows only the channels and namespaces that were asked for", async () => {
  await withServer(async ({ app, open }) => {
    const thread = open("SSE", "asking");
    await thread.run.start({ input: { log: [] } });
    await thread.output;
    const asked = (event: Event): boolean => event.method === "input.requested";
    const events = await replay(app, thread.threadId, asked, {
      channels: ["values", "input", "custom:progress"],
      namespaces: [["inner"]],
    });
    expect(events.every(({ params }) => params.namespace[0]?.startsWith("inner:"))).toBe(true);
    const named = await replay(app, thread.threadId, () => true, { channels: ["custom:progress"] });
    expect(named.map(({ params }) => params.data)).toEqual([{ name: "progress", payload: 1 }]);
    const bad = await app.request(`/threads/${thread.threadId}/stream/events`, {
      method: "POST",
      body: JSON.stringify({ channels: ["nothing"] }),
    });
    expect(bad.status).toBe(422);
  });
});

it("tells of runs that were made by the other routes, and those don't show what only the protocol needs", async () => {
  await withServer(async ({ app, client, open }) => {
    const { thread_id: threadId } = await client.threads.create();
    await client.runs.wait(threadId, "agent", { input: GO });
    const events = await replay(app, threadId, ends);
    expect(events.map(({ method }) => method)).toEqual([
      "lifecycle",
      "values",
      "values",
      "values",
      "values",
      "lifecycle",
    ]);

    const thread = open("SSE", "agent");
    const { run_id: runId } = await thread.run.start({ input: GO });
    await client.runs.join(thread.threadId, String(runId));
    const names = new Set<string>();
    for await (const { event } of client.runs.joinStream(thread.threadId, String(runId), { lastEventId: "-1" })) {
      names.add(event.split("|", 1)[0] ?? "");
    }
    expect([...names].sort()).toEqual(["metadata", "updates", "values"]);
  });
});

it("shows nobody a thread of another tenant", async () => {
  await withServer(async ({ engine, open }) => {
    const thread = open("SSE", "agent");
    await thread.run.start({ input: GO });
    await thread.output;
    const tenantOf = () => Promise.resolve("another" as TenantId);
    const app = createApp({ ...engine, tenantOf });
    const seen = replay(app, thread.threadId, () => true);
    const nothing = new Promise((resolve) => setTimeout(resolve, 1_000, "nothing"));
    expect(await Promise.race([seen, nothing])).toBe("nothing");
    const body = JSON.stringify({ id: 1, method: "agent.getTree", params: {} });
    const answer = await app.request(`/threads/${thread.threadId}/commands`, { method: "POST", body });
    expect(await answer.json()).toMatchObject({ type: "error", error: "no_such_run" });
    seen.catch(() => undefined);
  });
});

it("makes one run of a command that comes again with its Idempotency-Key", async () => {
  await withServer(async ({ app, client }) => {
    const threadId = randomUUID();
    const send = async (): Promise<unknown> => {
      const params = { assistant_id: "agent", input: GO };
      const body = JSON.stringify({ id: 1, method: "run.start", params });
      const headers = { "idempotency-key": "once" };
      return (await app.request(`/threads/${threadId}/commands`, { method: "POST", body, headers })).json();
    };
    const first = await send();
    expect(first).toMatchObject({ type: "success", id: 1, meta: { thread_id: threadId } });
    expect(await send()).toEqual(first);
    expect(await client.runs.list(threadId)).toHaveLength(1);
  });
});

it("refuses by name what a command can't mean", async () => {
  await withServer(async ({ app }) => {
    const send = async (command: unknown, threadId: string = randomUUID()): Promise<Record<string, unknown>> => {
      const response = await app.request(`/threads/${threadId}/commands`, {
        method: "POST",
        body: JSON.stringify(command),
      });
      return { status: response.status, ...((await response.json()) as object) };
    };
    expect(await send({ id: 1, method: "run.start", params: {} })).toMatchObject({
      status: 200,
      error: "invalid_argument",
    });
    expect(await send({ id: 2, method: "run.start", params: { assistant_id: "nobody" } })).toMatchObject({
      error: "invalid_argument",
      message: expect.stringContaining("nobody"),
    });
    const tracer = { assistant_id: "agent", langsmith_tracer: { project_name: "p" } };
    expect(await send({ id: 3, method: "run.start", params: tracer })).toMatchObject({
      error: "invalid_argument",
      message: expect.stringContaining("langsmith_tracer"),
    });
    expect(await send({ id: 4, method: "no.such" })).toMatchObject({ id: 4, error: "unknown_command" });
    expect(await send({ id: 5, method: "state.fork", params: {} })).toMatchObject({ error: "not_supported" });
    expect(await send({ id: 6, method: "agent.getTree" })).toMatchObject({ error: "no_such_run" });
    const answer = { interrupt_id: "0".repeat(32), response: 1 };
    expect(await send({ id: 7, method: "input.respond", params: answer })).toMatchObject({ error: "no_such_run" });
    const fork = { assistant_id: "agent", input: GO, config: { configurable: { checkpoint_id: randomUUID() } } };
    expect(await send({ id: 8, method: "run.start", params: fork })).toMatchObject({ error: "no_such_checkpoint" });
  });
});
