// Threads: made, found, labelled, deleted. What they hold and wait for comes from their newest checkpoint.
import { type Context, Hono } from "hono";
import { z } from "zod";
import { threadStorage } from "../../checkpoint/storage.js";
import { EngineError, isBodyLost, isEngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import { valueAt } from "../../core/json-parts.js";
import { findThread as findAnyThread, touchThread } from "../../engine/adopt/on-touch.js";
import { copyThread } from "../../engine/commands/copy-thread.js";
import { createThread } from "../../engine/commands/create-thread.js";
import { deleteThread } from "../../engine/commands/delete-thread.js";
import { pruneThread } from "../../engine/commands/prune-thread.js";
import { patchThread, threadNotFound } from "../../engine/commands/patch-thread.js";
import type { Engine } from "../../engine/engine.js";
import { importThread } from "../../engine/import-thread.js";
import { renderJson } from "../../engine/render.js";
import { countByValues, searchByValues } from "../../engine/search-values.js";
import { EMPTY_HEAD, readThreadHead, readThreadHeads, type ThreadHead } from "../../engine/thread-head.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { countThreads, searchThreads, type ThreadRow } from "../../runs/threads.js";
import { ask, asLeft, readAsked } from "../auth/ask.js";
import { reachesThread } from "../auth/things.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json, pageHeaders, select } from "../reply.js";
import { list, pathId, readBody, readQuery } from "../request.js";
import { jsonObject } from "../schemas/parts.js";
import { threadCount, threadCreate, threadPatch, threadPrune, threadSearch } from "../schemas/threads.js";

export const threadShow = z.object({ include: list });

export function threadRoutes(engine: Engine): Hono<ApiEnv> {
  const { deps } = engine;
  const routes = new Hono<ApiEnv>();

  routes.post("/threads", async (c) => {
    const { body, within } = await readAsked(engine, c, threadCreate, "threads:create");
    const tenantId = c.get("tenantId");
    if (body.thread_id !== undefined) await touchThread(engine, { tenantId, threadId: body.thread_id }, null);
    const asked = {
      tenantId,
      threadId: body.thread_id,
      metadata: body.metadata ?? {},
      ttl: body.ttl ?? engine.threadTtl,
      ifExists: body.if_exists ?? "raise",
      within,
      once: onceOf(engine, c),
    };
    const supersteps = (body.supersteps ?? []).map(({ updates }) => ({
      updates: updates.map(({ values, command, as_node: asNode }) => ({ values, command, asNode })),
    }));
    const { thread, again } = await (supersteps.length > 0
      ? importThread(engine, { ...asked, supersteps })
      : createThread(deps, asked));
    if (again) markReplayed(c);
    return json(c, await withHead(engine, c, thread));
  });

  routes.post("/threads/search", (c) => search(engine, c));

  routes.post("/threads/count", async (c) => {
    const { body, within } = await readAsked(engine, c, threadCount, "threads:search");
    const { status, metadata, values } = body;
    const filter = { tenantId: c.get("tenantId"), status, metadata, within };
    return c.json(
      await (narrows(values) ? countByValues(engine, { ...filter, values }) : countThreads(deps.db, filter)),
    );
  });

  routes.post("/threads/prune", async (c) => {
    const body = await readBody(c, threadPrune);
    const strategy = body.strategy ?? "delete";
    const event = strategy === "delete" ? "threads:delete" : "threads:update";
    const threadIds: ThreadId[] = [];
    for (const threadId of new Set(body.thread_ids)) {
      const { within } = await ask(engine, c, event, { thread_id: threadId });
      if (await reachesThread(engine, c, threadId, within)) threadIds.push(threadId);
    }
    return c.json({ pruned_count: await pruneMany(engine, c.get("tenantId"), threadIds, strategy) });
  });

  routes.post("/threads/:thread_id/copy", async (c) => {
    await readBody(c, z.object({}));
    const key = keyOf(c);
    const { within } = await ask(engine, c, "threads:read", { thread_id: key.threadId });
    await touchThread(engine, key, null);
    const { owner, leaseMs } = engine.edits;
    const copy = { ...key, owner, leaseMs, within, labelled: labelled(engine, c), once: onceOf(engine, c) };
    const { thread, again } = await copyThread(deps, copy);
    if (again) markReplayed(c);
    return json(c, await withHead(engine, c, thread));
  });

  routes.get("/threads/:thread_id", async (c) => {
    const { include } = readQuery(c, threadShow);
    const unknown = (include ?? []).filter((name) => name !== "ttl");
    if (unknown.length > 0) throw new EngineError("bad_request", "include: must be ttl");
    const thread = await findThread(engine, c);
    const shown = await withHead(engine, c, thread);
    return json(c, include === undefined ? shown : { ...shown, ttl: ttlOf(thread) });
  });

  routes.patch("/threads/:thread_id", async (c) => {
    const key = keyOf(c);
    const { body, within } = await readAsked(engine, c, threadPatch, "threads:update", { thread_id: key.threadId });
    await touchThread(engine, key, null);
    const patch = { ...key, metadata: body.metadata ?? {}, ttl: body.ttl ?? null, within };
    const thread = await patchThread(deps, patch);
    if (c.req.header("prefer")?.includes("return=minimal")) return c.body(null, 204);
    return json(c, await withHead(engine, c, thread));
  });

  routes.get("/threads/:thread_id/storage", async (c) => {
    const { threadId } = await findThread(engine, c);
    return json(c, await threadStorage(deps.db, { tenantId: c.get("tenantId"), threadId }));
  });

  routes.delete("/threads/:thread_id", async (c) => {
    const thread = await findThread(engine, c);
    const deleted = await deleteThread(deps, { tenantId: c.get("tenantId"), threadId: thread.threadId });
    if (!deleted) throw threadNotFound(keyOf(c));
    return c.body(null, 204);
  });

  return routes;
}

/** The thread a path names, if people may see it: those of stateless runs are nobody's. */
export async function findThread(engine: Engine, c: Context<ApiEnv>): Promise<ThreadRow> {
  const key = keyOf(c);
  const thread = c.get("thread") ?? (await findAnyThread(engine, key));
  if (thread === undefined) throw threadNotFound(key);
  return thread;
}

/** The copy's labels, as the handler of new threads would have them. */
function labelled(engine: Engine, c: Context<ApiEnv>) {
  return async (threadId: ThreadId, metadata: Fields): Promise<Fields> => {
    const asked = { thread_id: threadId, metadata: structuredClone(metadata) };
    const { value } = await ask(engine, c, "threads:create", asked);
    return asLeft(jsonObject, value.metadata, "threads:create");
  };
}

async function search(engine: Engine, c: Context<ApiEnv>): Promise<Response> {
  const { deps } = engine;
  const { body, within } = await readAsked(engine, c, threadSearch, "threads:search");
  const tenantId = c.get("tenantId");
  const filter = { tenantId, ids: body.ids, status: body.status, metadata: body.metadata, within };
  const offset = body.offset ?? 0;
  const page = {
    ...filter,
    sortBy: body.sort_by ?? "created_at",
    sortOrder: body.sort_order ?? "desc",
    limit: body.limit ?? 10,
    offset,
  };
  const { values } = body;
  const { threads, total } = narrows(values)
    ? await searchByValues(engine, { ...page, values })
    : { threads: await searchThreads(deps.db, page), total: await countThreads(deps.db, filter) };
  const { select: wanted, extract } = body;
  const readsHeads =
    wanted === undefined ||
    [...wanted, ...(extract ?? []).map(({ steps }) => steps[0])].some(
      (field) => field === "values" || field === "interrupts",
    );
  const heads = readsHeads ? await readThreadHeads(engine, tenantId, threads) : new Map<ThreadId, ThreadHead>();
  pageHeaders(c, { offset, returned: threads.length, total });
  return json(
    c,
    threads.map((thread) => {
      const whole = toWire(thread, heads.get(thread.threadId) ?? EMPTY_HEAD);
      if (extract === undefined) return select(whole, wanted);
      // As clients see it: messages flat, instants as text.
      const shown = renderJson(whole);
      const extracted = Object.fromEntries(extract.map(({ name, steps }) => [name, valueAt(shown, steps)]));
      return { ...select(whole, wanted), extracted };
    }),
  );
}

/** An empty filter holds for all threads, and needs no look into them. */
function narrows(values: Fields | undefined): values is Fields {
  return values !== undefined && Object.keys(values).length > 0;
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns how many it did something about; threads that are busy, damaged or not there are left alone. */
async function pruneMany(
  engine: Engine,
  tenantId: TenantId,
  threadIds: readonly ThreadId[],
  strategy: "delete" | "keep_latest",
): Promise<number> {
  const { deps, edits } = engine;
  let count = 0;
  for (const threadId of threadIds) {
    if ((await findAnyThread(engine, { tenantId, threadId })) === undefined) continue;
    if (strategy === "delete") {
      if (await deleteThread(deps, { tenantId, threadId })) count += 1;
      continue;
    }
    const policy = { keepLatest: 1, olderThanMs: null, outcomes: null };
    const { owner, leaseMs } = edits;
    const input = { tenantId, threadId, policy, thorough: false, dryRun: false, owner, leaseMs };
    const pruned = await pruneThread(deps, input).catch((error: unknown) => {
      if (isEngineError(error, "thread_busy") || isEngineError(error, "not_found")) return null;
      // What it needs of what is lost nobody knows; the others are not to wait for that.
      if (!isBodyLost(error)) throw error;
      deps.log.error({ tenant_id: tenantId, thread_id: threadId, code: error.code }, "a thread can't be pruned");
      return null;
    });
    if (pruned !== null) count += 1;
  }
  return count;
}

async function withHead(engine: Engine, c: Context<ApiEnv>, thread: ThreadRow) {
  return toWire(thread, await readThreadHead(engine, { tenantId: c.get("tenantId"), thread }));
}

function keyOf(c: Context<ApiEnv>): ThreadKey {
  return { tenantId: c.get("tenantId"), threadId: pathId<ThreadId>(c, "thread_id") };
}

function ttlOf({ updatedAt, ttlMinutes, ttlStrategy }: ThreadRow) {
  if (ttlMinutes === null) return null;
  return {
    strategy: ttlStrategy,
    ttl_minutes: ttlMinutes,
    expires_at: new Date(updatedAt.getTime() + ttlMinutes * 60_000),
  };
}

function toWire(thread: ThreadRow, head: ThreadHead) {
  return {
    thread_id: thread.threadId,
    created_at: thread.createdAt,
    updated_at: thread.updatedAt,
    state_updated_at: thread.stateUpdatedAt ?? thread.createdAt,
    metadata: thread.metadata,
    status: thread.status,
    config: thread.config,
    values: head.values,
    interrupts: head.interrupts,
    ...(head.error !== undefined && { error: head.error }),
  };
}
