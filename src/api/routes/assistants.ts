// Assistants: rows and their versions, the drawing and the schemas of their graphs.
import { type Context, Hono } from "hono";
import { z } from "zod";
import { type AssistantRow, countAssistants, getAssistant, searchAssistants } from "../../assistants/queries.js";
import { type AssistantVersionRow, listVersions, useVersion } from "../../assistants/versions.js";
import { reaches, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import { describeSchemas, describeSubgraphs, drawGraph } from "../../engine/assistant-graph.js";
import { changeAssistant, createAssistant } from "../../engine/commands/create-assistant.js";
import { deleteAssistant } from "../../engine/commands/delete-assistant.js";
import type { Engine } from "../../engine/engine.js";
import type { GraphSchemas } from "../../engine/graph-schemas.js";
import { ask, readAsked } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json, pageHeaders, select } from "../reply.js";
import { flag, one, readBody, readQuery } from "../request.js";
import {
  assistantCount,
  assistantCreate,
  assistantLatest,
  assistantPatch,
  assistantSearch,
  assistantVersions,
} from "../schemas/assistants.js";

export function assistantRoutes(engine: Engine): Hono<ApiEnv> {
  const { deps, graphs } = engine;
  const routes = new Hono<ApiEnv>();

  routes.post("/assistants/search", async (c) => {
    const { body, within } = await readAsked(engine, c, assistantSearch, "assistants:search");
    const filter = { ...filterOf(c, body), within };
    const offset = body.offset ?? 0;
    const [rows, total] = await Promise.all([
      searchAssistants(deps.db, {
        ...filter,
        sortBy: body.sort_by ?? "created_at",
        sortOrder: body.sort_order ?? "desc",
        limit: body.limit ?? 10,
        offset,
      }),
      countAssistants(deps.db, filter),
    ]);
    pageHeaders(c, { offset, returned: rows.length, total });
    return json(
      c,
      rows.map((row) => select(toWire(row), body.select)),
    );
  });

  routes.post("/assistants/count", async (c) => {
    const { body, within } = await readAsked(engine, c, assistantCount, "assistants:search");
    return c.json(await countAssistants(deps.db, { ...filterOf(c, body), within }));
  });

  routes.get("/assistants/:assistant_id", async (c) => json(c, toWire(await find(engine, c))));

  routes.get("/assistants/:assistant_id/graph", async (c) => {
    const { xray } = readQuery(c, graphQuery);
    return c.json(await drawGraph(graphs, await find(engine, c), xray));
  });

  routes.get("/assistants/:assistant_id/schemas", async (c) => {
    const assistant = await find(engine, c);
    return c.json(schemasToWire(assistant, await describeSchemas(graphs, assistant)));
  });

  routes.get("/assistants/:assistant_id/subgraphs/:namespace?", async (c) => {
    const { recurse } = readQuery(c, subgraphsQuery);
    const assistant = await find(engine, c);
    const found = await describeSubgraphs(graphs, assistant, { namespace: c.req.param("namespace"), recurse });
    // The development server and the specification name them differently.
    const wire = Object.entries(found).map(([namespace, schemas]) => {
      return [namespace, { ...schemasToWire(assistant, schemas), ...schemas }];
    });
    return c.json(Object.fromEntries(wire));
  });

  routes.post("/assistants", async (c) => {
    const { body, within } = await readAsked(engine, c, assistantCreate, "assistants:create");
    refuseUnknownGraph(engine, body.graph_id);
    const { assistant, again } = await createAssistant(deps, {
      tenantId: c.get("tenantId"),
      assistantId: body.assistant_id,
      graphId: body.graph_id,
      name: body.name ?? "Untitled",
      description: body.description ?? null,
      config: body.config ?? {},
      context: body.context ?? {},
      metadata: body.metadata ?? {},
      ifExists: body.if_exists ?? "raise",
      within,
      once: onceOf(engine, c),
    });
    if (again) markReplayed(c);
    return json(c, toWire(assistant));
  });

  routes.patch("/assistants/:assistant_id", async (c) => {
    const ids = { assistant_id: c.req.param("assistant_id") };
    const { body, within } = await readAsked(engine, c, assistantPatch, "assistants:update", ids);
    const { graph_id: graphId, ...patch } = body;
    if (graphId !== undefined) refuseUnknownGraph(engine, graphId);
    const assistant = await find(engine, c, within);
    return json(c, toWire(await changeAssistant(deps, assistant, { ...patch, tenantId: c.get("tenantId"), graphId })));
  });

  routes.delete("/assistants/:assistant_id", async (c) => {
    const { delete_threads: deleteThreads } = readQuery(c, deleteQuery);
    const assistant = await find(engine, c);
    const threads = deleteThreads ? await ask(engine, c, "threads:delete", {}) : { within: null };
    const { moveAfterMs } = engine.edits;
    const deletion = { tenantId: c.get("tenantId"), assistant, deleteThreads, threadsWithin: threads.within };
    await deleteAssistant(deps, { ...deletion, moveAfterMs });
    return c.json([assistant.assistantId]);
  });

  routes.post("/assistants/:assistant_id/versions", async (c) => {
    const { metadata, limit = 10, offset = 0 } = await readBody(c, assistantVersions);
    const { assistantId } = await find(engine, c);
    const page = { tenantId: c.get("tenantId"), assistantId, metadata, limit, offset };
    const versions = await listVersions(deps.db, page);
    return json(c, versions.map(versionToWire));
  });

  routes.post("/assistants/:assistant_id/latest", async (c) => {
    const ids = { assistant_id: c.req.param("assistant_id") };
    const { body, within } = await readAsked(engine, c, assistantLatest, "assistants:update", ids);
    const { version } = body;
    const { assistantId } = await find(engine, c, within);
    const used = await useVersion(deps.db, { tenantId: c.get("tenantId"), assistantId, version });
    if (used === undefined) {
      throw new EngineError("not_found", `Assistant ${assistantId} has no version ${version}`);
    }
    return json(c, toWire(used));
  });

  return routes;
}

/** Other processes may serve it; this one couldn't say what it is. */
function refuseUnknownGraph({ graphs, readiness }: Engine, graphId: string): void {
  if (graphs.has(graphId)) return;
  if (!readiness.prepared) throw new EngineError("unavailable", "This process is still starting");
  const shown = JSON.stringify(graphId.slice(0, 200));
  throw new EngineError("not_found", `Graph ${shown} not found; there is ${graphs.ids.slice(0, 50).join(", ")}`);
}

/** Subgraphs to draw as well: all, none, or down to a depth. */
const depth = one.transform((value, context): boolean | number => {
  const word = value?.toLowerCase();
  if (word === undefined || ["", "false", "no", "0"].includes(word)) return false;
  if (["true", "yes"].includes(word)) return true;
  if (/^\d{1,3}$/.test(word)) return Number(word);
  context.addIssue({ code: "custom", message: "must be true, false or a depth" });
  return z.NEVER;
});

export const graphQuery = z.object({ xray: depth });
export const subgraphsQuery = z.object({ recurse: flag });
export const deleteQuery = z.object({ delete_threads: flag });

async function find(engine: Engine, c: Context<ApiEnv>, within: Within = null): Promise<AssistantRow> {
  const idOrGraphId = c.req.param("assistant_id") ?? "";
  const found = await getAssistant(engine.deps.db, { tenantId: c.get("tenantId"), idOrGraphId });
  if (found === undefined || !reaches(within, found.metadata)) {
    throw new EngineError("not_found", "Assistant not found");
  }
  return found;
}

function filterOf(c: Context<ApiEnv>, body: z.output<typeof assistantCount>) {
  return { tenantId: c.get("tenantId"), graphId: body.graph_id, name: body.name, metadata: body.metadata };
}

function toWire(row: AssistantRow) {
  return { ...versionToWire(row), pin: row.pin, updated_at: row.updatedAt };
}

function versionToWire(row: AssistantVersionRow) {
  return {
    assistant_id: row.assistantId,
    graph_id: row.graphId,
    name: row.name,
    description: row.description,
    version: row.version,
    config: row.config,
    context: row.context,
    metadata: row.metadata,
    created_at: row.createdAt,
  };
}

/** In LangGraph.js what a graph is configured with and its context are one thing. */
function schemasToWire(assistant: AssistantRow, schemas: GraphSchemas) {
  return {
    graph_id: assistant.graphId,
    input_schema: schemas.input,
    output_schema: schemas.output,
    state_schema: schemas.state,
    config_schema: schemas.config,
    context_schema: schemas.config,
  };
}
