// The store: what graphs keep beside threads, read and written over HTTP.
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Engine } from "../../engine/engine.js";
import type { StoreItem, StoreOperation } from "../../engine/tenant-store.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { readBody, readQuery } from "../request.js";
import { itemDelete, itemGet, itemPut, itemSearch, namespaceList } from "../schemas/store.js";

export function storeRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const does = async <T>(tenantId: ApiEnv["Variables"]["tenantId"], operation: StoreOperation): Promise<T> => {
    const [result] = await engine.storeOf(tenantId).batch([operation]);
    return result as T;
  };

  routes.put("/store/items", async (c) => {
    const { namespace, key, value, index, ttl } = await readBody(c, itemPut);
    refuseEmpty(namespace);
    await does(c.get("tenantId"), {
      ...{ namespace, key, value },
      ...(index === undefined ? {} : { index }),
      // PostgresStore takes 0 for never, and nothing for what is configured.
      ...(ttl === undefined ? {} : { options: { ttl: ttl ?? 0 } }),
    });
    return c.body(null, 204);
  });

  routes.get("/store/items", async (c) => {
    const { namespace, key, refresh_ttl: refreshTtl } = readQuery(c, itemGet);
    refuseEmpty(namespace);
    const item = await does<StoreItem | null>(c.get("tenantId"), { namespace, key, refreshTtl });
    return json(c, item === null ? null : itemRecord(item));
  });

  routes.delete("/store/items", async (c) => {
    const { namespace, key } = await readBody(c, itemDelete);
    refuseEmpty(namespace);
    await does(c.get("tenantId"), { namespace, key, value: null });
    return c.body(null, 204);
  });

  routes.post("/store/items/search", async (c) => {
    const {
      namespace_prefix: namespacePrefix = [],
      filter,
      limit,
      offset,
      query,
      ...rest
    } = await readBody(c, itemSearch);
    const items = await does<StoreItem[]>(c.get("tenantId"), {
      ...{ namespacePrefix, limit: limit ?? 10, offset: offset ?? 0, refreshTtl: rest.refresh_ttl },
      ...(filter === undefined ? {} : { filter }),
      ...(query === undefined ? {} : { query }),
    });
    return json(c, { items: items.map(itemRecord) });
  });

  routes.post("/store/namespaces", async (c) => {
    const { prefix, suffix, max_depth: maxDepth, limit, offset } = await readBody(c, namespaceList);
    const namespaces = await does<string[][]>(c.get("tenantId"), {
      matchConditions: [
        ...(prefix === undefined ? [] : [{ matchType: "prefix" as const, path: prefix }]),
        ...(suffix === undefined ? [] : [{ matchType: "suffix" as const, path: suffix }]),
      ],
      ...(maxDepth === undefined ? {} : { maxDepth }),
      ...{ limit: limit ?? 100, offset: offset ?? 0 },
    });
    return json(c, { namespaces });
  });

  return routes;
}

/** Stock servers say 400 here, and 422 to a label that can't be. */
function refuseEmpty(namespace: readonly string[]): void {
  if (namespace.length === 0) throw new HTTPException(400, { message: "Namespace cannot be empty." });
}

function itemRecord({ namespace, key, value, createdAt, updatedAt }: StoreItem) {
  return { namespace, key, value, created_at: createdAt, updated_at: updatedAt };
}
