// MCP: every agent is a tool of the stock client's, and a call is a run like any other.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Annotation, END, START, StateGraph, task, entrypoint } from "@langchain/langgraph";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serveApi } from "../../src/api/server.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const failing = new StateGraph(Log)
  .addNode("fail", () => {
    throw new TypeError("no such city");
  })
  .addEdge(START, "fail")
  .addEdge("fail", END)
  .compile();
let release: () => void = () => undefined;
const slow = new StateGraph(Log)
  .addNode("wait", async () => {
    await new Promise<void>((resolve) => (release = resolve));
    return { log: ["waited"] };
  })
  .addEdge(START, "wait")
  .addEdge("wait", END)
  .compile();
const double = task("double", (n: number) => n * 2);
const number = entrypoint("number", (n: number) => double(n));

const engine = sharedEngine({ graphs: { ...graphs, failing, slow, number }, workers: 1, identityHeaders: true });
let server: Awaited<ReturnType<typeof serveApi>>;
const clients: Client[] = [];

beforeAll(async () => {
  server = await serveApi(engine().app, { port: 0 });
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await server.close();
});

async function connect(headers: Record<string, string> = {}): Promise<Client> {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers } }));
  clients.push(client);
  return client;
}

type Result = Readonly<{
  content: { type: string; text: string }[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
  _meta?: Record<string, string>;
}>;
const call = async (client: Client, name: string, args: Record<string, unknown> = {}, options = {}): Promise<Result> =>
  (await client.callTool({ name, arguments: args }, undefined, options)) as unknown as Result;

async function rpc(body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, text, type: response.headers.get("content-type") };
}

test("each agent is a tool by its graph's name, with its input's schema, and the follow-up tools beside them", async () => {
  const client = await connect();
  expect(client.getServerVersion()).toMatchObject({ name: "perdure" });
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name).sort()).toEqual(
    [
      ...["steps", "gate", "nested", "echo", "typed", "failing", "slow", "number"],
      ...["schedule_followup", "list_followups", "cancel_followup", "reschedule_followup"],
    ].sort(),
  );
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  expect(byName.get("typed")?.inputSchema).toMatchObject({ properties: { city: { type: "string" } } });
  expect(byName.get("echo")?.inputSchema).toMatchObject({
    properties: { messages: { type: "array", items: { required: ["role", "content"] } } },
  });
  expect(byName.get("number")?.inputSchema).toMatchObject({ type: "object", required: ["input"] });
});

test("a call is a run on a thread that stays, and its answer the final state", async () => {
  const client = await connect();
  const result = await call(client, "echo", { messages: [{ role: "user", content: "hello" }] });
  expect(result.isError).toBeUndefined();
  expect(result.structuredContent).toMatchObject({ messages: [{ type: "human" }, { content: "you said: hello" }] });
  expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(result.structuredContent);
  const { run_id: runId = "", thread_id: threadId = "" } = result._meta ?? {};
  expect(await engine().client.runs.get(threadId, runId)).toMatchObject({ status: "success" });
  const number = await call(client, "number", { input: 4 });
  expect(number.content[0]?.text).toBe("8");
});

test("an assistant is a tool of its own, by its name and the end of its id; what a name doesn't tell apart is refused", async () => {
  const client = await connect();
  const make = (name: string) => engine().client.assistants.create({ graphId: "steps", name, description: "Counts." });
  const [one, other] = [await make("Zähler 1"), await make("twice")];
  const third = await make("twice");
  const { tools } = await client.listTools();
  const tool = tools.find(({ title }) => title === "Zähler 1");
  expect(tool).toMatchObject({ name: `Z_hler_1_${one.assistant_id.slice(-8)}`, description: "Counts." });
  for (const name of [tool?.name ?? "", "Zähler 1", one.assistant_id]) {
    const { _meta, structuredContent } = await call(client, name, { log: [] });
    expect([_meta?.["assistant_id"], structuredContent]).toEqual([one.assistant_id, { log: ["1", "2", "3"] }]);
  }
  await expect(call(client, "twice")).rejects.toThrow(
    `twice_${other.assistant_id.slice(-8)}, twice_${third.assistant_id.slice(-8)}`,
  );
  await engine().client.assistants.delete(third.assistant_id);
  expect((await call(client, "twice"))._meta?.["assistant_id"]).toBe(other.assistant_id);
});

test("a run that fails is an error that says what it was", async () => {
  const result = await call(await connect(), "failing");
  expect(result).toMatchObject({ isError: true, content: [{ text: "TypeError: no such city" }] });
});

test("a run that asks says so and how it is answered, and goes on when a person has answered over the API", async () => {
  const result = await call(await connect(), "gate", { log: [] });
  expect(result.isError).toBeUndefined();
  expect(result.structuredContent).toMatchObject({
    status: "interrupted",
    interrupts: [{ value: { question: "go on?" } }],
  });
  const [first = ""] = result.structuredContent?.["answer_with"] as string[];
  const [, path = ""] = /^POST (\S+)/.exec(first) ?? [];
  const decided = await engine().app.request(path, { method: "POST", body: '{"value": "yes"}' });
  const { run_id: runId, thread_id: threadId } = (await decided.json()) as { run_id: string; thread_id: string };
  expect(threadId).toBe(result.structuredContent?.["thread_id"]);
  expect(await engine().client.runs.join(threadId, runId)).toEqual({ log: ["before", "yes", "after"] });
});

test("who waits is told that it goes on, and who leaves doesn't end it", async () => {
  const client = await connect();
  const left = new AbortController();
  const known = call(client, "slow", {}, { signal: left.signal });
  await expect.poll(async () => (await engine().client.runs.list(await newestThread()))[0]?.status).toBe("running");
  const threadId = await newestThread();
  left.abort();
  await expect(known).rejects.toThrow();
  release();
  await expect.poll(async () => (await engine().client.runs.list(threadId))[0]?.status).toBe("success");
  const told: number[] = [];
  const waited = call(client, "slow", {}, { onprogress: ({ progress }: { progress: number }) => told.push(progress) });
  await expect.poll(() => told, { timeout: 12_000 }).toEqual([1]);
  release();
  expect((await waited).structuredContent).toEqual({ log: ["waited"] });
}, 30_000);

async function newestThread(): Promise<string> {
  const [thread] = await engine().client.threads.search({ limit: 1, sortBy: "created_at", sortOrder: "desc" });
  return thread?.thread_id ?? "00000000-0000-0000-0000-000000000000";
}

test("a call that comes again with its Idempotency-Key makes no second run, whatever the message's id is", async () => {
  const ask = (id: number, args: unknown) =>
    rpc(
      { jsonrpc: "2.0", id, method: "tools/call", params: { name: "steps", arguments: args } },
      { "idempotency-key": "mcp-1" },
    );
  const [one, two] = [await ask(1, { log: [] }), await ask(2, { log: [] })];
  const run = ({ text }: { text: string }) => /"run_id":"([^"]+)"/.exec(text)?.[1];
  expect(run(one)).toBeDefined();
  expect(run(two)).toBe(run(one));
  expect((await ask(3, { log: ["x"] })).text).toMatch(/another request/);
  const apart = [
    await rpc({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "steps", arguments: { log: [] } } }),
    await rpc({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "steps", arguments: { log: [] } } }),
  ];
  expect(new Set([one, ...apart].map(run)).size).toBe(3);
});

test("a call that comes again once a person has answered gets what came of it", async () => {
  const ask = async () => {
    const params = { name: "gate", arguments: {} };
    return (await rpc({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, { "idempotency-key": "mcp-2" })).text;
  };
  const [, threadId = ""] = /"thread_id":"([^"]+)"/.exec(await ask()) ?? [];
  await engine().client.runs.wait(threadId, "gate", { command: { resume: "yes" } });
  expect(await ask()).toMatch(/"status":"success".*"structuredContent":{"log":\["before","yes","after"\]}/);
});

test("follow-ups are scheduled, listed, put off and taken back", async () => {
  const client = await connect();
  const { thread_id: threadId } = await engine().client.threads.create();
  await engine().client.runs.wait(threadId, "steps", { input: { log: [] } });
  const asked = { threadId, about: "bill", instruction: "Pay it", mode: "remind", when: { in: "P2D" } };
  const made = await call(client, "schedule_followup", asked);
  expect(made).toMatchObject({ structuredContent: { about: "bill", mode: "remind", threadId, warnings: [] } });
  const id = made.structuredContent?.["id"] as string;
  const list = async () => (await call(client, "list_followups", { threadId })).structuredContent?.["followups"];
  expect(await list()).toMatchObject([{ id, about: "bill" }]);
  const before = made.structuredContent?.["firesAt"] as string;
  const moved = await call(client, "reschedule_followup", { id, when: { in: "P3D" } });
  expect(Date.parse(moved.structuredContent?.["firesAt"] as string)).toBeGreaterThan(Date.parse(before));
  expect((await call(client, "cancel_followup", { id })).structuredContent).toEqual({ id, outcome: "cancelled" });
  expect(await list()).toEqual([]);
  for (const wrong of [
    call(client, "cancel_followup", { id: "nobody" }),
    call(client, "cancel_followup", { id: crypto.randomUUID() }),
    call(client, "schedule_followup", { ...asked, threadId: crypto.randomUUID() }),
    call(client, "schedule_followup", { ...asked, when: { in: "soon" } }),
    call(client, "schedule_followup", { ...asked, about: "a\u0000b" }),
    call(client, "schedule_followup", { about: "x" }),
  ]) {
    expect((await wrong).isError).toBe(true);
  }
});

test("what can't be meant is refused in MCP's own form", async () => {
  const request = (method: string, params?: unknown) => ({ jsonrpc: "2.0", id: 7, method, params });
  const call = (params: unknown) => request("tools/call", params);
  const cases: (readonly [unknown, number, number])[] = [
    ["{", 400, -32700],
    ["", 400, -32700],
    ["[]", 400, -32600],
    [{ hello: 1 }, 400, -32700],
    [`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}`, 400, -32600],
    [Array.from({ length: 101 }, () => request("ping")), 400, -32600],
    [request("resources/list"), 200, -32601],
    [request("tools/list", { cursor: "-1" }), 200, -32602],
    [call({ name: "nobody" }), 200, -32602],
    [call({ name: "a\u0000b" }), 200, -32602],
    [call({ name: "\ud800" }), 200, -32602],
    [call({}), 200, -32602],
    [call({ name: "steps", arguments: [] }), 200, -32602],
  ];
  for (const [body, status, code] of cases) {
    const answer = await rpc(body);
    expect([JSON.stringify(body).slice(0, 80), answer.status, /"code":(-\d+)/.exec(answer.text)?.[1]]).toEqual([
      ...[JSON.stringify(body).slice(0, 80), status, String(code)],
    ]);
  }
  expect((await rpc({ jsonrpc: "2.0", method: "notifications/initialized" })).status).toBe(202);
  expect((await rpc(request("ping"), { accept: "text/html" })).status).toBe(406);
  const ping = await rpc(request("ping"));
  expect(ping).toMatchObject({ status: 200, type: "application/json", text: '{"result":{},"jsonrpc":"2.0","id":7}' });
  for (const [method, path] of [
    ["GET", "/mcp"],
    ["DELETE", "/mcp"],
    ["GET", "/mcp/"],
  ] as const) {
    const response = await fetch(`${server.url}${path}`, { method, headers: { accept: "text/event-stream" } });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  }
});
