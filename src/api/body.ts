// A request's body as JSON data, exactly as it was sent: what would change on its way into the store is refused by place.
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { EngineError } from "../core/errors.js";
import type { ApiEnv } from "./env.js";
import { bodyChunks } from "./node-http.js";

const MAX_BODY_BYTES = 64 * 1024 * 1024;
/** Half of what a state value may have: graphs put what they are given into something. */
const MAX_NESTING = 500;

/** An empty body is `{}`. */
export async function readJson(c: Context<ApiEnv>): Promise<unknown> {
  const text = decode(await readBytes(c));
  if (text.trim() === "") return {};
  const value = parse(text);
  const misfit = findMisfit(value, 0);
  if (misfit !== undefined) {
    const path = pathText(misfit.path);
    throw new EngineError("bad_request", `${path}: ${misfit.message}`, {
      details: { issues: [{ path, message: misfit.message }] },
    });
  }
  return value;
}

/** Refuses a body as soon as it is known to be too large, by the length it declares or by what has come. */
export async function readBytes(c: Context<ApiEnv>): Promise<Buffer> {
  if (Number(c.req.header("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge(c);
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of bodyChunks(c)) {
      length += chunk.length;
      // The rest is not cancelled here: that would cut the connection before the answer is out.
      if (length > MAX_BODY_BYTES) break;
      chunks.push(chunk);
    }
  } catch (error) {
    endedEarly(error);
  }
  if (length > MAX_BODY_BYTES) throw tooLarge(c);
  return Buffer.concat(chunks);
}

/** The client is gone: nobody reads this, and it must not be taken for one of our own connections that broke. */
function endedEarly(cause: unknown): never {
  throw new HTTPException(400, { message: "The request body ended early", cause });
}

/** What is still on its way has no reader: no other request can follow on this connection. */
function tooLarge(c: Context<ApiEnv>): HTTPException {
  c.header("Connection", "close");
  return new HTTPException(413, { message: `The request body is larger than ${MAX_BODY_BYTES} bytes` });
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // Putting U+FFFD in their place would store something else than was sent.
    throw new HTTPException(400, { message: "The request body is not valid UTF-8" });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new HTTPException(400, { message: "The request body is not valid JSON" });
  }
}

type Misfit = Readonly<{ path: (string | number)[]; message: string }>;

/** Numbers that JSON.parse made infinite, and nesting on which later recursion would fail. */
function findMisfit(value: unknown, depth: number): Misfit | undefined {
  if (typeof value === "number" && !Number.isFinite(value))
    return { path: [], message: "must be a number within ±1.8e308" };
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > MAX_NESTING) return { path: [], message: `must not be nested deeper than ${MAX_NESTING} levels` };
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  for (const key of keys) {
    const found = findMisfit((value as Record<string | number, unknown>)[key], depth + 1);
    if (found === undefined) continue;
    found.path.unshift(key);
    return found;
  }
  return undefined;
}

const MAX_PATH_CHARACTERS = 200;

/** Where something stands in a body: `command.goto[0].node`. A very long path is cut. */
export function pathText(path: readonly PropertyKey[]): string {
  const text = path
    .map((key) => (typeof key === "number" ? `[${key}]` : printable(String(key))))
    .join(".")
    .replaceAll(".[", "[");
  return text.length > MAX_PATH_CHARACTERS ? `${text.slice(0, MAX_PATH_CHARACTERS)}…` : text;
}

/** Keys come from the caller: shortened, and with what can't stand in a message made visible. */
function printable(key: string): string {
  const shown = JSON.stringify(key).slice(1, -1);
  return shown.length > 80 ? `${shown.slice(0, 80)}…` : shown;
}
