// One POST of MCP messages: a server made for it, whose tools are what its caller may use, and which is gone with the answer.
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from "@modelcontextprotocol/sdk/types.js";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { z } from "zod";
import { isObject } from "../../core/json-parts.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { asEngineError, logFailure } from "../http-errors.js";
import { RPC, rpcError, rpcFrame } from "../json-rpc.js";
import { type OpenBody, streamEvents } from "../node-http.js";
import { HEARTBEAT_MS } from "../sse.js";
import { listAgentTools } from "./agent-tools.js";
import { callAgent, type Progress } from "./call-agent.js";
import { callFollowupTool, FOLLOWUP_TOOLS, isFollowupTool } from "./followup-tools.js";
import { failed } from "./results.js";

type C = Context<ApiEnv>;

const INSTRUCTIONS =
  "Each agent is a tool: a call runs it to its end and answers with its final state. A run that stops to ask a person says how it is answered. The follow-up tools put work off on a thread.";

/** Only calls take long, and are answered as events; all else is answered as JSON. */
export async function serveMcp(
  engine: Engine,
  c: C,
  { version, body }: Readonly<{ version: string; body: unknown }>,
): Promise<Response> {
  const messages = [body].flat().filter(isObject);
  const calls = messages.some(({ method }) => method === "tools/call");
  const transport = new WebStandardStreamableHTTPServerTransport({
    enableJsonResponse: !calls,
    keepAliveMs: HEARTBEAT_MS,
  });
  const server = mcpServer(engine, c, version);
  // Its own types disagree about what may be undefined.
  await server.connect(transport);
  const answer = await transport.handleRequest(c.req.raw, { parsedBody: body });
  if (answer.headers.get("content-type") === "text/event-stream" && answer.body !== null) {
    const events = answer.body;
    const asked = messages.flatMap(({ id }) => (typeof id === "string" || typeof id === "number" ? [id] : []));
    const farewell = (message: string): string =>
      asked.map((id) => rpcFrame(rpcError(id, RPC.request, message))).join("");
    return streamEvents(c, (out) => pass(events, out, () => server.close()), farewell);
  }
  const text = await answer.text();
  await server.close();
  return c.body(text, answer.status as ContentfulStatusCode, Object.fromEntries(answer.headers));
}

/** Until all is said, or nobody listens any more: what was begun goes on without. */
async function pass(events: ReadableStream<Uint8Array>, out: OpenBody, close: () => Promise<void>): Promise<void> {
  const leave = (): void => void close();
  out.gone.addEventListener("abort", leave, { once: true });
  if (out.gone.aborted) leave();
  try {
    for await (const text of events.pipeThrough(new TextDecoderStream())) await out.write(text);
  } catch {
    out.cut();
  } finally {
    await close();
  }
}

function mcpServer(engine: Engine, c: C, version: string): Server {
  const info = { name: "perdure", version };
  const server = new Server(info, { capabilities: { tools: {} }, instructions: INSTRUCTIONS });
  server.setRequestHandler(listAsked, (request) =>
    refusing(engine, c, async () => {
      const { params } = readAsked(ListToolsRequestSchema, request);
      const { tools, nextCursor } = await listAgentTools(engine, c, params?.cursor);
      const others = params?.cursor === undefined ? FOLLOWUP_TOOLS : [];
      return { tools: [...tools, ...others], ...(nextCursor !== undefined && { nextCursor }) };
    }),
  );
  server.setRequestHandler(callAsked, (request, { signal, _meta, sendNotification }) => {
    const { params } = readAsked(CallToolRequestSchema, request);
    const token = _meta?.progressToken;
    const progress: Progress = async (told, message) => {
      if (token === undefined) return;
      const params = { progressToken: token, progress: told, message };
      await sendNotification({ method: "notifications/progress", params });
    };
    const { name, arguments: args = {} } = params;
    return refusing(engine, c, () =>
      telling(() =>
        isFollowupTool(name)
          ? callFollowupTool(engine, c, { name, args })
          : callAgent(engine, c, { name, args, signal, progress }),
      ),
    );
  });
  return server;
}

/** A request that doesn't fit its schema the server would take for a fault of its own. */
const listAsked = z.looseObject({ method: z.literal("tools/list") });
const callAsked = z.looseObject({ method: z.literal("tools/call") });

function readAsked<S extends z.ZodType>(schema: S, request: unknown): z.output<S> {
  const read = schema.safeParse(request);
  if (read.success) return read.data;
  throw new McpError(ErrorCode.InvalidParams, z.prettifyError(read.error));
}

/** What can't be done as it was asked for is a result: models read it, and ask in another way. */
async function telling(call: () => Promise<CallToolResult>): Promise<CallToolResult> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof HTTPException) return failed(error.message);
    const known = asEngineError(error);
    if (known === undefined || known.code === "internal") throw error;
    return failed(known.message);
  }
}

/** What went wrong here is said by its request's id. */
async function refusing<T>(engine: Engine, c: C, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof McpError) throw error;
    if (error instanceof HTTPException) throw new McpError(ErrorCode.InvalidRequest, error.message);
    const known = asEngineError(error);
    if (known !== undefined && known.code !== "internal") throw new McpError(ErrorCode.InvalidRequest, known.message);
    logFailure(engine.deps.log, c, error, known);
    const message = `Internal error; the log has it under request id ${c.get("requestId")}`;
    throw new McpError(ErrorCode.InternalError, message);
  }
}
