// The state of a thread: read now, at a checkpoint and over its history; edited.
import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import { patchThread } from "../../engine/commands/patch-thread.js";
import type { ThreadId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import {
  getHistory,
  getState,
  getStateAt,
  graphIdOf,
  type OfThread,
  type StateAddress,
  updateState,
} from "../../engine/state.js";
import type { ThreadState } from "../../engine/thread-state.js";
import { readAsked } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { flag, integer, list, one, pathId, readBody, readQuery } from "../request.js";
import type { CheckpointBody } from "../schemas/parts.js";
import { before, stateAtCheckpoint, stateHistory, statePatch, stateSelect, stateUpdate } from "../schemas/threads.js";
import { findThread } from "./threads.js";

export const stateQuery = z.object({ subgraphs: flag, select: list.pipe(stateSelect.optional()) });
export const historyQuery = z.object({
  limit: integer({ min: 1, max: 1000, fallback: 10 }),
  before: one.transform(jsonOrText).pipe(before.optional()),
});

export function stateRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.get("/threads/:thread_id/state", async (c) => {
    const query = readQuery(c, stateQuery);
    const state = await getState(engine, await ofThread(engine, c), query);
    return json(c, selectState(state, query.select));
  });

  routes.get("/threads/:thread_id/state/:checkpoint_id", async (c) => {
    const query = readQuery(c, stateQuery);
    const address = { checkpoint_id: pathId<string>(c, "checkpoint_id") };
    const state = await getStateAt(engine, await ofThread(engine, c), address, query);
    return json(c, selectState(state, query.select));
  });

  routes.post("/threads/:thread_id/state/checkpoint", async (c) => {
    const body = await readBody(c, stateAtCheckpoint);
    const of = await ofThread(engine, c);
    const address = addressOf(of, body.checkpoint);
    const state = await getStateAt(engine, of, address, { subgraphs: body.subgraphs ?? false });
    return json(c, selectState(state, body.select));
  });

  routes.post("/threads/:thread_id/state", async (c) => {
    const body = await readBody(c, stateUpdate);
    const of = await ofThread(engine, c);
    if (graphIdOf(of.thread) === undefined) {
      throw new HTTPException(400, { message: `Thread ${of.thread.threadId} has no graph ID` });
    }
    const address = addressOf(of, body.checkpoint);
    const { checkpoint, again } = await updateState(engine, of, {
      once: onceOf(engine, c),
      values: body.values ?? null,
      asNode: body.as_node,
      address: body.checkpoint_id === undefined ? address : { ...address, checkpoint_id: body.checkpoint_id },
    });
    if (again) markReplayed(c);
    return json(c, { checkpoint });
  });

  // As the stock client says it: "patch the metadata of a thread". What a state was stored with stays as it is.
  routes.patch("/threads/:thread_id/state", async (c) => {
    const ids = { thread_id: pathId<ThreadId>(c, "thread_id") };
    const { body, within } = await readAsked(engine, c, statePatch, "threads:update", ids);
    const { threadId } = await findThread(engine, c);
    await patchThread(engine.deps, { tenantId: c.get("tenantId"), threadId, metadata: body.metadata ?? {}, within });
    return c.body(null, 204);
  });

  routes.get("/threads/:thread_id/history", async (c) => {
    const { limit, before: from } = readQuery(c, historyQuery);
    return json(c, await getHistory(engine, await ofThread(engine, c), { limit, before: from }));
  });

  routes.post("/threads/:thread_id/history", async (c) => {
    const body = await readBody(c, stateHistory);
    const of = await ofThread(engine, c);
    const states = await getHistory(engine, of, {
      limit: body.limit ?? 10,
      before: body.before,
      metadata: body.metadata,
      address: addressOf(of, body.checkpoint),
    });
    return json(
      c,
      states.map((state) => selectState(state, body.select)),
    );
  });

  return routes;
}

async function ofThread(engine: Engine, c: Context<ApiEnv>): Promise<OfThread> {
  return { tenantId: c.get("tenantId"), thread: await findThread(engine, c) };
}

/** A checkpoint names its thread too; another thread's is a mistake that must not be read as this one's. */
function addressOf(of: OfThread, checkpoint: CheckpointBody | undefined): StateAddress {
  const { thread_id, ...address } = checkpoint ?? {};
  if (thread_id !== undefined && thread_id !== of.thread.threadId) {
    throw new EngineError("bad_request", `checkpoint.thread_id: must be ${of.thread.threadId}, the thread of the path`);
  }
  return address;
}

/** Whole fields, or single keys of the values. */
function selectState(state: ThreadState, fields: readonly string[] | undefined): object {
  if (fields === undefined) return state;
  const picked: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(state)) if (fields.includes(name)) picked[name] = value;
  const keys = fields.filter((field) => field.startsWith("values.")).map((field) => field.slice("values.".length));
  if (keys.length > 0 && !fields.includes("values")) picked.values = pickKeys(state.values, keys);
  return picked;
}

function pickKeys(values: unknown, keys: readonly string[]): Record<string, unknown> {
  if (typeof values !== "object" || values === null) return {};
  return Object.fromEntries(Object.entries(values).filter(([key]) => keys.includes(key)));
}

/** `before` in a query is an id, or JSON of what the body form takes. */
function jsonOrText(text: string | undefined): unknown {
  if (!text?.startsWith("{")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
