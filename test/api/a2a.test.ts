// A2A: every assistant is an agent of the stock clients', of 0.3 and of 1.0; a context is a thread and a task a run.
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serveApi } from "../../src/api/server.js";
import { type Agent, agent0, agent1, type Told } from "../helpers/a2a.js";
import { StreamingModel } from "../helpers/streaming-model.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const ask = new StateGraph(MessagesAnnotation)
  .addNode("ask", () => ({ messages: [{ role: "ai", content: `so ${String(interrupt("which city?"))}` }] }))
  .addEdge(START, "ask")
  .addEdge("ask", END)
  .compile();
const fail = new StateGraph(MessagesAnnotation)
  .addNode("fail", () => {
    throw new TypeError("no such city");
  })
  .addEdge(START, "fail")
  .addEdge("fail", END)
  .compile();
const TEXT = "one two three four";
const model = new StreamingModel(() => ({ text: TEXT }), 100);
const speak = new StateGraph(MessagesAnnotation)
  .addNode("speak", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, "speak")
  .addEdge("speak", END)
  .compile();
let release: () => void = () => undefined;
const hold = new StateGraph(MessagesAnnotation)
  .addNode("hold", async () => {
    await new Promise<void>((resolve) => (release = resolve));
    return { messages: [{ role: "ai", content: "held" }] };
  })
  .addEdge(START, "hold")
  .addEdge("hold", END)
  .compile();

const engine = sharedEngine({ graphs: { ...graphs, ask, fail, speak, hold }, workers: 1, concurrency: 10 });
let server: Awaited<ReturnType<typeof serveApi>>;
beforeAll(async () => {
  server = await serveApi(engine().app, { port: 0 });
});
afterAll(() => server.close());

async function rpc(body: unknown, assistant = "echo", headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}/a2a/${assistant}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return {
    status: response.status,
    json: JSON.parse(await response.text()) as { result?: unknown; error?: { code: number } },
  };
}

/** What a client has been refused with. */
const refused = (asked: Promise<unknown>): Promise<unknown> =>
  asked.then(
    () => "it was done",
    (error: Readonly<{ errorResponse?: { error: { code: number } }; envelopeCode?: number; message: string }>) =>
      error.errorResponse?.error.code ?? error.envelopeCode ?? error.message,
  );
const UNSUPPORTED = -32004;

const runsOf = async (threadId: string) => (await engine().client.runs.list(threadId)).map(({ run_id }) => run_id);
async function all(events: AsyncIterable<Told>): Promise<Told[]> {
  const told: Told[] = [];
  for await (const event of events) told.push(event);
  return told;
}

describe.each([
  ["0.3", agent0],
  ["1.0", agent1],
])("%s", (_version, connect) => {
  const agent = (assistant: string): Promise<Agent> => connect({ url: server.url, fetch: globalThis.fetch, assistant });

  test("a message is answered with a task that is done, in a context that goes on", async () => {
    const echo = await agent("echo");
    const first = await echo.send({ text: "hello" });
    expect(first).toMatchObject({ state: "completed", said: "you said: hello" });
    expect(await runsOf(first.contextId)).toEqual([first.id]);
    const second = await echo.send({ text: "again", contextId: first.contextId });
    expect(second).toMatchObject({ state: "completed", said: "you said: again", contextId: first.contextId });
    expect(await runsOf(first.contextId)).toEqual([second.id, first.id]);
    expect(await echo.get(first.id)).toEqual(first);
    const { values } = await engine().client.threads.getState(first.contextId);
    expect(values).toMatchObject({ messages: { length: 4 } });
  });

  test("an agent that speaks in no messages takes data, and gives its state", async () => {
    const steps = await agent("steps");
    expect(JSON.parse((await steps.send({ data: { log: ["0"] } })).said)).toEqual({ log: ["0", "1", "2", "3"] });
    expect(await refused(steps.send({ text: "hello" }))).toBe(-32005);
  });

  test("a run that fails is a task that failed, and says what it was", async () => {
    const failed = await (await agent("fail")).send({ text: "x" });
    expect(failed).toMatchObject({ state: "failed", asked: "TypeError: no such city" });
  });

  test("a question waits for input, and a message to its task answers it: once", async () => {
    const asking = await agent("ask");
    const asked = await asking.send({ text: "where to?" });
    expect(asked).toMatchObject({ state: "input-required", asked: expect.stringContaining("which city?") as string });
    const messageId = crypto.randomUUID();
    const answer = () => asking.send({ text: "Rome", taskId: asked.id, contextId: asked.contextId, messageId });
    const answered = await answer();
    expect(answered).toMatchObject({ id: asked.id, contextId: asked.contextId, state: "completed", said: "so Rome" });
    expect(await asking.get(asked.id)).toEqual(answered);
    expect(await answer()).toEqual(answered);
    expect(await runsOf(asked.contextId)).toHaveLength(2);
    expect(await refused(asking.send({ text: "Paris", taskId: asked.id }))).toBe(UNSUPPORTED);
  });

  test("a question may be answered over the API, and its task goes on", async () => {
    const asking = await agent("ask");
    const asked = await asking.send({ text: "where to?" });
    await engine().client.runs.wait(asked.contextId, "ask", { command: { resume: "Oslo" } });
    expect(await asking.get(asked.id)).toMatchObject({ id: asked.id, state: "completed", said: "so Oslo" });
  });

  test("a question that is taken back cancels its task", async () => {
    const asking = await agent("ask");
    const asked = await asking.send({ text: "where to?" });
    expect(await asking.cancel(asked.id)).toMatchObject({ state: "canceled" });
    expect(await refused(asking.cancel(asked.id))).toBe(-32002);
    expect(await refused(asking.send({ text: "Rome", taskId: asked.id }))).toBe(UNSUPPORTED);
  });

  test("the same message sent twice makes one run, whichever way it is sent; another with its id makes another", async () => {
    const echo = await agent("echo");
    const { contextId } = await echo.send({ text: "begin" });
    const said = { text: "hello", contextId, messageId: crypto.randomUUID() };
    const sent = await Promise.all(Array.from({ length: 8 }, () => echo.send(said)));
    expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
    const [again] = await all(echo.stream(said));
    expect(again).toMatchObject({ kind: "task", id: sent[0]?.id, state: "completed" });
    expect(await runsOf(contextId)).toHaveLength(2);
    await echo.send({ ...said, text: "another" });
    expect(await runsOf(contextId)).toHaveLength(3);
  });

  test("a stream tells of the task, of its text bit by bit, of the whole, and of the end", async () => {
    const told = await all((await agent("speak")).stream({ text: "speak" }));
    expect(told[0]).toMatchObject({ kind: "task", state: expect.stringMatching(/submitted|working/) as string });
    expect(told[1]).toMatchObject({ kind: "status-update", state: "working" });
    const bits = told.filter(({ kind }) => kind === "artifact-update");
    const whole = bits.pop();
    expect(bits.map(({ text }) => text).join("")).toBe(TEXT);
    expect(bits.map(({ append }) => append)).toEqual([false, true, true, true]);
    expect(new Set(bits.map(({ id }) => id))).toEqual(new Set([whole?.id]));
    expect(whole).toMatchObject({ text: TEXT, append: false });
    expect(told.at(-1)).toMatchObject({ kind: "status-update", state: "completed" });
  });

  test("who drops out of a stream comes back to it, in any process", async () => {
    const speaking = await agent("speak");
    let id = "";
    for await (const event of speaking.stream({ text: "speak" })) {
      if (event.kind === "task") id = event.id ?? "";
      if (event.kind === "artifact-update") break;
    }
    const other = await serveApi(engine().anotherApp(), { port: 0 });
    try {
      const there = await connect({ url: other.url, fetch: globalThis.fetch, assistant: "speak" });
      const told = await all(there.resubscribe(id));
      expect(told[0]).toMatchObject({ kind: "task", id, state: "working" });
      expect(told.at(-2)).toMatchObject({ kind: "artifact-update", text: TEXT });
      expect(told.at(-1)).toMatchObject({ kind: "status-update", state: "completed" });
      if (speaking.name === "1.0") await expect(all(there.resubscribe(id))).rejects.toThrow(/is over/);
      else expect(await all(there.resubscribe(id))).toMatchObject([{ kind: "task", state: "completed" }]);
    } finally {
      await other.close();
    }
  });

  test("a stream ends with the question, and its answer may be streamed", async () => {
    const asking = await agent("ask");
    const asked = await all(asking.stream({ text: "where to?" }));
    expect(asked.at(-1)).toMatchObject({ kind: "status-update", state: "input-required" });
    const told = await all(asking.stream({ text: "Bonn", taskId: asked[0]?.id ?? "" }));
    expect(told[0]?.id).toBe(asked[0]?.id);
    expect(told.filter(({ kind }) => kind === "artifact-update").at(-1)?.text).toBe("so Bonn");
  });

  test("who doesn't wait gets the task as it begins, and may cancel it", async () => {
    const holding = await agent("hold");
    const begun = await holding.send({ text: "x", atOnce: true });
    expect(begun.state).toMatch(/submitted|working/);
    await expect.poll(async () => (await holding.get(begun.id)).state).toBe("working");
    expect(await refused(holding.send({ text: "more", taskId: begun.id }))).toBe(UNSUPPORTED);
    expect(await holding.cancel(begun.id)).toMatchObject({ id: begun.id, state: "canceled" });
    expect(await holding.get(begun.id)).toMatchObject({ state: "canceled" });
    release();
  });

  test("a task of another agent, or of nobody, is none", async () => {
    const { id } = await (await agent("echo")).send({ text: "x" });
    const other = await agent("speak");
    for (const no of [other.get(id), other.get(crypto.randomUUID()), other.get("nobody"), other.cancel(id)].map(
      refused,
    )) {
      expect(await no).toBe(-32001);
    }
    expect(await refused(other.send({ text: "x", taskId: id }))).toBe(-32001);
  });
});

test("a card says where its agent is spoken to, as its caller has come", async () => {
  const { assistant_id } = await engine().client.assistants.create({
    graphId: "echo",
    name: "Echo",
    description: "Says it.",
  });
  const at = `${server.url}/.well-known/agent-card.json?assistant_id=${assistant_id}`;
  const card = (await (await fetch(at)).json()) as Record<string, unknown>;
  const url = `${server.url}/a2a/${assistant_id}`;
  expect(card).toMatchObject({
    ...{ name: "Echo", description: "Says it.", url, protocolVersion: "0.3.0", preferredTransport: "JSONRPC" },
    supportedInterfaces: [
      { url, protocolVersion: "1.0" },
      { url, protocolVersion: "0.3" },
    ],
    capabilities: { streaming: true, pushNotifications: false },
  });
  expect(await (await fetch(`${url}/.well-known/agent-card.json`)).json()).toEqual(card);
  const behind = await fetch(at, { headers: { "x-forwarded-proto": "https" } });
  expect(await behind.json()).toMatchObject({ url: url.replace("http:", "https:") });
  const status = async (path: string) => (await fetch(`${server.url}${path}`)).status;
  expect(await status("/.well-known/agent-card.json")).toBe(422);
  expect(await status("/.well-known/agent-card.json?assistant_id=nobody")).toBe(404);
  expect(await status("/a2a/nobody/.well-known/agent-card.json")).toBe(404);
});

test("what can't be meant is refused in JSON-RPC's own form", async () => {
  const request = (method: string, params?: unknown) => ({ jsonrpc: "2.0", id: 7, method, params });
  const message = { messageId: "m", role: "user", parts: [{ kind: "text", text: "x" }] };
  const send = (changed: object, more: object = {}) =>
    request("message/send", { message: { ...message, ...changed }, ...more });
  const cases: (readonly [unknown, number, number])[] = [
    ["{", 400, -32700],
    ["[]", 400, -32600],
    ["", 200, -32600],
    [[request("tasks/get")], 200, -32600],
    [{ ...request("tasks/get"), jsonrpc: "1.0" }, 200, -32600],
    [{ jsonrpc: "2.0", method: "tasks/get" }, 200, -32600],
    [request("tasks/steal"), 200, -32601],
    [request("constructor"), 200, -32601],
    [request("tasks/pushNotificationConfig/set", {}), 200, -32003],
    [request("CreateTaskPushNotificationConfig", {}), 200, -32003],
    [send({}, { configuration: { pushNotificationConfig: { url: "http://x" } } }), 200, -32003],
    [request("message/send"), 200, -32602],
    [request("message/stream", {}), 200, -32602],
    [send({ parts: [] }), 200, -32602],
    [send({ parts: [{ kind: "text" }] }), 200, -32602],
    [send({ role: "agent" }), 200, -32602],
    [send({ contextId: "session-42" }), 200, -32602],
    [send({ messageId: "" }), 200, -32602],
    [send({ taskId: "\u0000" }), 200, -32001],
    [request("tasks/get", {}), 200, -32602],
    [request("tasks/get", { id: "x", historyLength: -1 }), 200, -32602],
    [request("tasks/cancel", { id: "x" }), 200, -32001],
    [request("tasks/resubscribe", { id: "x" }), 200, -32001],
  ];
  for (const [body, status, code] of cases) {
    const { status: got, json } = await rpc(body);
    expect([JSON.stringify(body), got, json.error?.code]).toEqual([JSON.stringify(body), status, code]);
  }
  expect((await rpc(send({}), "echo", { "a2a-version": "2.0" })).json.error?.code).toBe(-32009);
  expect((await rpc(send({}), "echo", { "a2a-version": "" })).json.error).toBeUndefined();
  expect((await fetch(`${server.url}/a2a/nobody`, { method: "POST", body: "{}" })).status).toBe(404);
});

test("files are content of messages, as models take them", async () => {
  const parts = [
    { kind: "text", text: "look" },
    { kind: "file", file: { bytes: "aGk=", mimeType: "image/png", name: "a.png" } },
    { url: "https://example.com/a.pdf", mediaType: "application/pdf" },
  ];
  const message = { messageId: crypto.randomUUID(), role: "user", parts };
  const { json } = await rpc({ jsonrpc: "2.0", id: "a", method: "message/send", params: { message } });
  const { contextId, history } = json.result as { contextId: string; history: unknown[] };
  const { values } = await engine().client.threads.getState(contextId);
  expect(values).toMatchObject({
    messages: [
      {
        content: [
          { type: "text", text: "look" },
          { type: "image", mimeType: "image/png", data: "aGk=", metadata: { filename: "a.png" } },
          { type: "file", mimeType: "application/pdf", url: "https://example.com/a.pdf" },
        ],
      },
      {},
    ],
  });
  expect(history[0]).toMatchObject({
    parts: [
      { kind: "text", text: "look" },
      { kind: "file", file: { bytes: "aGk=", mimeType: "image/png", name: "a.png" } },
      { kind: "file", file: { uri: "https://example.com/a.pdf", mimeType: "application/pdf" } },
    ],
  });
});
