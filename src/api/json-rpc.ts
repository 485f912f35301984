// JSON-RPC 2.0, as MCP and A2A are spoken over it: a request's body as data, and refusals in its own form.
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { z } from "zod";
import { isEngineError } from "../core/errors.js";
import { readJson } from "./body.js";
import type { ApiEnv } from "./env.js";

export const RPC = { parse: -32700, request: -32600, method: -32601, params: -32602, internal: -32603 } as const;

/** For the API's description; those who speak it check more of it. */
export const rpcMessage = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).optional(),
});

export type RpcId = string | number | null;

export function rpcError(id: RpcId, code: number, message: string, data?: unknown) {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data !== undefined && { data }) } };
}

/** As an event of a stream. */
export function rpcFrame(message: object): string {
  return `data: ${JSON.stringify(message)}\n\n`;
}

/** What was sent, or the answer to what can't be read. */
export async function readRpc(
  c: Context<ApiEnv>,
): Promise<Readonly<{ body: unknown }> | Readonly<{ refused: Response }>> {
  try {
    const body = await readJson(c);
    if (Array.isArray(body) && body.length === 0) return { refused: refusal(c, 400, RPC.request, "An empty batch") };
    return { body };
  } catch (error) {
    if (error instanceof HTTPException) return { refused: refusal(c, error.status, RPC.parse, error.message) };
    if (!isEngineError(error, "bad_request")) throw error;
    return { refused: refusal(c, 400, RPC.request, error.message) };
  }
}

function refusal(c: Context<ApiEnv>, status: ContentfulStatusCode, code: number, message: string): Response {
  return c.json(rpcError(null, code, message), status);
}
