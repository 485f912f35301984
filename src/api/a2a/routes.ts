// A2A over JSON-RPC: each assistant is an agent, a context is a thread, a task is a run. Both families of method names are answered, each
// in its own form.
import { type Context, Hono } from "hono";
import { z } from "zod";
import type { AssistantRow } from "../../assistants/queries.js";
import { EngineError } from "../../core/errors.js";
import { cancelRun } from "../../engine/commands/cancel-run.js";
import type { Engine } from "../../engine/engine.js";
import { awaitRun } from "../../engine/stream/await-run.js";
import { mayUseAssistant } from "../auth/ask-run.js";
import type { ApiEnv } from "../env.js";
import { readRpc, rpcError, RPC, type RpcId } from "../json-rpc.js";
import { one, readAs, readQuery } from "../request.js";
import { jsonWhenReady } from "../sse.js";
import { cardOf } from "./card.js";
import { A2aError, refusal } from "./errors.js";
import { follow } from "./follow.js";
import { messageParams, rpcRequest, taskParams } from "./schemas.js";
import { send, type Sent } from "./send.js";
import { findTask, newest, taskOf } from "./task.js";
import { type TaskState, type Wire, WIRE_0, WIRE_1 } from "./wire.js";

type C = Context<ApiEnv>;
type Call = Readonly<{ engine: Engine; c: C; assistant: AssistantRow; id: RpcId; wire: Wire; params: unknown }>;
type Method = (call: Call) => Promise<Response>;

export const cardQuery = z.object({
  assistant_id: one.refine(
    (id) => id !== undefined && id !== "",
    "must say whose card: an assistant's or a graph's id",
  ),
});

export function a2aRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  for (const path of ["/a2a/:assistant_id", "/a2a/:assistant_id/"]) {
    routes.post(path, async (c) => answer(engine, c, await find(engine, c, c.req.param("assistant_id") ?? "")));
  }
  routes.get("/a2a/:assistant_id/.well-known/agent-card.json", async (c) =>
    c.json(cardOf(engine, c, await find(engine, c, c.req.param("assistant_id")))),
  );
  routes.get("/.well-known/agent-card.json", async (c) => {
    const { assistant_id: id = "" } = readQuery(c, cardQuery);
    return c.json(cardOf(engine, c, await find(engine, c, id)));
  });
  return routes;
}

async function find(engine: Engine, c: C, idOrGraphId: string): Promise<AssistantRow> {
  const assistant = await engine.assistant({ tenantId: c.get("tenantId"), idOrGraphId });
  const isThere = assistant !== undefined && engine.graphs.has(assistant.graphId);
  if (!isThere || !(await mayUseAssistant(engine, c, assistant))) {
    throw new EngineError("not_found", "Assistant not found");
  }
  return assistant;
}

async function answer(engine: Engine, c: C, assistant: AssistantRow): Promise<Response> {
  const read = await readRpc(c);
  if ("refused" in read) return read.refused;
  const request = rpcRequest.safeParse(read.body);
  if (!request.success) return c.json(rpcError(idIn(read.body), RPC.request, z.prettifyError(request.error)));
  const { id, method, params } = request.data;
  try {
    refuseVersion(c.req.header("a2a-version"));
    const [run, wire] = methodOf(method);
    return await run({ engine, c, assistant, id, wire, params: params ?? {} });
  } catch (error) {
    const refused = refusal(id, error);
    if (refused === undefined) throw error;
    return c.json(refused);
  }
}

/** What a request that can't be meant is answered under. */
function idIn(body: unknown): RpcId {
  const { id } = (body ?? {}) as { id?: unknown };
  return typeof id === "string" || typeof id === "number" ? id : null;
}

/** Who says none means 0.3. */
function refuseVersion(asked = ""): void {
  if (/^([01](\.\d+)*)?$/.test(asked.trim())) return;
  throw new A2aError("version", `A2A-Version ${JSON.stringify(asked.slice(0, 40))} is not supported: 1.0 and 0.3 are`);
}

function methodOf(name: string): readonly [Method, Wire] {
  const old = Object.hasOwn(METHODS_0, name) ? METHODS_0[name] : undefined;
  if (old !== undefined) return [old, WIRE_0];
  const run = Object.hasOwn(METHODS_1, name) ? METHODS_1[name] : undefined;
  if (run !== undefined) return [run, WIRE_1];
  if (/pushNotificationConfig/i.test(name)) throw noPush();
  throw new A2aError("method", `There is no method ${JSON.stringify(name.slice(0, 100))}`);
}

const METHODS_0: Readonly<Record<string, Method>> = {
  "message/send": sendMessage,
  "message/stream": streamMessage,
  "tasks/get": getTask,
  "tasks/cancel": cancelTask,
  "tasks/resubscribe": subscribe,
  "agent/getAuthenticatedExtendedCard": card,
};
const METHODS_1: Readonly<Record<string, Method>> = {
  SendMessage: sendMessage,
  SendStreamingMessage: streamMessage,
  GetTask: getTask,
  CancelTask: cancelTask,
  SubscribeToTask: subscribe,
  GetExtendedAgentCard: card,
};

function noPush(): A2aError {
  return new A2aError("no_push", "Push notifications are not supported; a run's webhook tells of its end");
}

function readMessage(params: unknown) {
  const read = readAs(messageParams, params);
  const { pushNotificationConfig, taskPushNotificationConfig } = read.configuration ?? {};
  if ((pushNotificationConfig ?? taskPushNotificationConfig ?? null) !== null) throw noPush();
  return read;
}

function told({ c, id }: Call, result: unknown): Response {
  return c.json({ jsonrpc: "2.0", id, result });
}

async function sendMessage(call: Call): Promise<Response> {
  const { engine, c, assistant } = call;
  const { message, configuration } = readMessage(call.params);
  const atOnce = configuration?.blocking === false || configuration?.returnImmediately === true;
  const sent = await send(engine, c, assistant, { message, waits: !atOnce });
  const length = configuration?.historyLength;
  if (atOnce) return told(call, call.wire.sent(await taskOf(engine, sent, length)));
  return jsonWhenReady(c, engine, sent.run, undefined, (signal) => whenOver(call, sent, { signal, length }));
}

/** Who waits is told even what goes wrong: the answer has begun. */
async function whenOver(
  { engine, id, wire }: Call,
  sent: Sent,
  { signal, length }: Readonly<{ signal: AbortSignal; length: number | undefined }>,
): Promise<string | undefined> {
  try {
    const { tenantId, runId } = sent.run;
    const ended = await awaitRun(engine, { tenantId, runId, signal, isNew: sent.isNew });
    if (ended === undefined) return undefined;
    const task = await taskOf(engine, await newest(engine, sent), length);
    return JSON.stringify({ jsonrpc: "2.0", id, result: wire.sent(task) });
  } catch (error) {
    const refused = refusal(id, error);
    if (refused === undefined) throw error;
    return JSON.stringify(refused);
  }
}

async function streamMessage({ engine, c, assistant, params, ...to }: Call): Promise<Response> {
  const { message } = readMessage(params);
  return follow(engine, c, await send(engine, c, assistant, { message, waits: false }), to);
}

async function getTask(call: Call): Promise<Response> {
  const { engine, c, assistant, wire } = call;
  const { id, historyLength } = readAs(taskParams, call.params);
  const ref = await findTask(engine, c, assistant, { id, event: "threads:read" });
  return told(call, wire.task(await taskOf(engine, ref, historyLength)));
}

async function cancelTask(call: Call): Promise<Response> {
  const { engine, c, assistant, wire } = call;
  const { id } = readAs(taskParams, call.params);
  const ref = await findTask(engine, c, assistant, { id, event: "threads:update" });
  const { tenantId, threadId, runId } = ref.run;
  const { state } = (await taskOf(engine, ref, 0)).status;
  if (isOver(state)) {
    throw new A2aError("not_cancelable", `Task ${id} can't be cancelled any more: it is ${state}`);
  }
  const reason = "cancelled over A2A";
  await cancelRun(engine.deps, { tenantId, threadId, runId, reason, moveAfterMs: engine.edits.moveAfterMs });
  return told(call, wire.task(await taskOf(engine, ref)));
}

/** 1.0 has a task that is over refused, 0.3 has it told. */
async function subscribe({ engine, c, assistant, params, ...to }: Call): Promise<Response> {
  const { id } = readAs(taskParams, params);
  const ref = await findTask(engine, c, assistant, { id, event: "threads:read" });
  if (to.wire === WIRE_1) {
    const { state } = (await taskOf(engine, ref, 0)).status;
    if (isOver(state)) throw new A2aError("unsupported", `Task ${id} is over: it is ${state}`);
  }
  return follow(engine, c, ref, to);
}

function isOver(state: TaskState): boolean {
  return state === "completed" || state === "failed" || state === "canceled";
}

function card(call: Call): Promise<Response> {
  return Promise.resolve(told(call, cardOf(call.engine, call.c, call.assistant)));
}
