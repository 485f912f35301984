// The store: what graphs keep beside threads, read and written over HTTP.
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { reaches, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import type { TenantId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import type { StoreItem, StoreOperation, TenantStore } from "../../engine/tenant-store.js";
import { ask, asLeft, readAsked } from "../auth/ask.js";
import { forbidden } from "../auth/refusal.js";
import { type ItemName, pageWithin, reachesItem, searchWithin } from "../auth/store.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { readBody, readQuery } from "../request.js";
import { itemDelete, itemGet, itemPut, itemSearch, namespaceList } from "../schemas/store.js";

export function storeRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const does = async <T>(tenantId: TenantId, operation: StoreOperation): Promise<T> => {
    const [result] = await engine.storeOf(tenantId).batch([operation]);
    return result as T;
  };

  /** Looking at it doesn't keep it alive. */
  const isOthers = async (tenantId: TenantId, within: Within, at: ItemName): Promise<boolean> => {
    if (within === null) return false;
    const item = await does<StoreItem | null>(tenantId, { ...at, refreshTtl: false });
    return item !== null && !reachesItem(within, item);
  };

  routes.put("/store/items", async (c) => {
    const { body, within } = await readAsked(engine, c, itemPut, "store:put");
    const { namespace, key, value, index, ttl } = body;
    refuseEmpty(namespace);
    refuseUnindexed(engine.storeOf(c.get("tenantId")), index);
    if (!reachesItem(within, { namespace, key, value })) {
      throw forbidden("Not authorized: who puts it there wouldn't reach it");
    }
    if (await isOthers(c.get("tenantId"), within, { namespace, key })) {
      throw new EngineError("conflict", `Item ${key} already exists`);
    }
    await does(c.get("tenantId"), {
      ...{ namespace, key, value },
      ...(index === undefined ? {} : { index }),
      // PostgresStore takes 0 for never, and nothing for what is configured.
      ...(ttl === undefined ? {} : { options: { ttl: ttl ?? 0 } }),
    });
    return c.body(null, 204);
  });

  routes.get("/store/items", async (c) => {
    const { refresh_ttl: refreshTtl, ...query } = readQuery(c, itemGet);
    const { within, value } = await ask(engine, c, "store:get", query);
    const { namespace, key } = asLeft(itemDelete, value, "store:get");
    refuseEmpty(namespace);
    if (await isOthers(c.get("tenantId"), within, { namespace, key })) return json(c, null);
    const item = await does<StoreItem | null>(c.get("tenantId"), { namespace, key, refreshTtl });
    return json(c, item === null ? null : itemRecord(item));
  });

  routes.delete("/store/items", async (c) => {
    const { body, within } = await readAsked(engine, c, itemDelete, "store:delete");
    const { namespace, key } = body;
    refuseEmpty(namespace);
    if (await isOthers(c.get("tenantId"), within, { namespace, key })) return c.body(null, 204);
    await does(c.get("tenantId"), { namespace, key, value: null });
    return c.body(null, 204);
  });

  routes.post("/store/items/search", async (c) => {
    const { namespace_prefix: namespace = [], refresh_ttl: refreshTtl, ...body } = await readBody(c, itemSearch);
    const { within, value } = await ask(engine, c, "store:search", structuredClone({ namespace, ...body }));
    const asked = asLeft(itemSearch, { ...value, namespace_prefix: value.namespace }, "store:search");
    const { namespace_prefix: namespacePrefix = [], limit = 10, offset = 0, query } = asked;
    const filter = searchWithin(within, asked.filter);
    if (filter === undefined) return json(c, { items: [] });
    const tenantId = c.get("tenantId");
    const items = await pageWithin(
      within,
      { limit, offset },
      (page) =>
        does<StoreItem[]>(tenantId, {
          // Others' items, which are looked at too, are not kept alive by that.
          ...{ namespacePrefix, ...page, refreshTtl: within === null ? refreshTtl : false },
          ...(filter === null ? {} : { filter }),
          ...(query === undefined ? {} : { query }),
        }),
      (item) => reachesItem(within, item),
    );
    if (within !== null && refreshTtl !== false) {
      for (const { namespace: of, key } of items) await does(tenantId, { namespace: of, key, refreshTtl });
    }
    return json(c, { items: items.map(itemRecord) });
  });

  routes.post("/store/namespaces", async (c) => {
    const { prefix: namespace, ...body } = await readBody(c, namespaceList);
    const event = "store:list_namespaces";
    const { within, value } = await ask(engine, c, event, structuredClone({ namespace, ...body }));
    const asked = asLeft(namespaceList, { ...value, prefix: value.namespace }, event);
    const { prefix, suffix, max_depth: maxDepth, limit = 100, offset = 0 } = asked;
    const namespaces = await pageWithin(
      within,
      { limit, offset },
      (page) =>
        does<string[][]>(c.get("tenantId"), {
          matchConditions: [
            ...(prefix === undefined ? [] : [{ matchType: "prefix" as const, path: prefix }]),
            ...(suffix === undefined ? [] : [{ matchType: "suffix" as const, path: suffix }]),
          ],
          ...(maxDepth === undefined ? {} : { maxDepth }),
          ...page,
        }),
      (labels) => reaches(within, { namespace: labels }),
    );
    return json(c, { namespaces });
  });

  return routes;
}

/** Stock servers say 400 here, and 422 to a label that can't be. */
function refuseEmpty(namespace: readonly string[]): void {
  if (namespace.length === 0) throw new HTTPException(400, { message: "Namespace cannot be empty." });
}

/** What is asked for would have no effect. */
function refuseUnindexed({ hasIndex }: TenantStore, index: false | readonly string[] | undefined): void {
  if (hasIndex || !Array.isArray(index)) return;
  throw new EngineError(
    "bad_request",
    'index: must be false or left out: this store has no "store.index" in langgraph.json',
  );
}

/** With a query that found it by what it means: how near it comes. */
function itemRecord({ namespace, key, value, createdAt, updatedAt, score }: StoreItem) {
  const record = { namespace, key, value, created_at: createdAt, updated_at: updatedAt };
  return score === undefined ? record : { ...record, score };
}
