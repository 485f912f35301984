// Crons: runs that are made again and again, by themselves.
import { type Context, Hono } from "hono";
import { z } from "zod";
import type { AssistantRow } from "../../assistants/queries.js";
import { type AuthUser, reaches, type RunAccess, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, CronId, ThreadId } from "../../core/ids.js";
import { touchThread } from "../../engine/adopt/on-touch.js";
import { changeCron, createCron, deleteCron, noCron } from "../../engine/commands/change-cron.js";
import { ANY_THREAD } from "../../engine/commands/create-run.js";
import type { CronRun } from "../../engine/commands/fire-cron.js";
import type { Engine } from "../../engine/engine.js";
import { refuseUnknown } from "../../engine/refuse-unknown.js";
import { listCronFirings } from "../../schedule/cron-firings.js";
import { countCrons, type CronFilter, type CronKey, type CronRow, getCron, searchCrons } from "../../schedule/crons.js";
import { readAsked, userOf } from "../auth/ask.js";
import { askForRun, mayUseAssistant } from "../auth/ask-run.js";
import { callerOf, UNKNOWN } from "../caller.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json, pageHeaders, select } from "../reply.js";
import { integer, pathId, readQuery } from "../request.js";
import { runInput } from "../run-input.js";
import { cronCount, cronCreate, cronPatch, cronSearch, threadCronCreate } from "../schemas/crons.js";
import { CRON_RUN_FIELDS, type RunCreate } from "../schemas/runs.js";
import { refuseWebhook } from "./runs.js";

type C = Context<ApiEnv>;
/** What its runs are asked, as parsed. */
type Payload = RunCreate;

export const firingList = z.object({
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
});

export function cronRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { deps } = engine;
  const keyOf = (c: C): CronKey => ({ tenantId: c.get("tenantId"), cronId: pathId<CronId>(c, "cron_id") });
  const found = async (c: C): Promise<CronRow> => {
    const cron = await getCron(deps.db, keyOf(c));
    if (cron === undefined) throw noCron(keyOf(c).cronId);
    return cron;
  };

  const create = async (c: C, threadId: ThreadId | null) => {
    const schema = threadId === null ? cronCreate : threadCronCreate;
    const user_id = callerOf(engine, c).person;
    const { body } = await readAsked(engine, c, schema, "crons:create", { thread_id: threadId, user_id });
    const tenantId = c.get("tenantId");
    const asked = await askForRun(engine, c, { threadId, body: payloadOf(body) });
    const payload = asked.body;
    const assistant = await assistantOf(engine, c, payload.assistant_id);
    if (threadId !== null) await touchThread(engine, { tenantId, threadId }, assistant.graphId);
    const who = { access: asked.access, user: userOf(c) };
    const { cron, again } = await createCron(
      deps,
      {
        ...{ tenantId, threadId, assistantId: assistant.assistantId },
        ...{ userId: user_id, within: asked.access.within },
        ...{ schedule: body.schedule, timeZone: body.timezone ?? null, endTime: body.end_time ?? null },
        ...{ enabled: body.enabled ?? true, onRunCompleted: body.on_run_completed ?? "delete" },
        metadata: body.metadata ?? {},
        ...(await encoded(engine, { tenantId, threadId, assistant, payload, who })),
      },
      onceOf(engine, c),
    );
    if (again) markReplayed(c);
    return json(c, cronRecord(cron));
  };

  routes.post("/runs/crons", (c) => create(c, null));
  routes.post("/threads/:thread_id/runs/crons", (c) => create(c, pathId<ThreadId>(c, "thread_id")));

  routes.post("/runs/crons/search", async (c) => {
    const { body, within } = await readAsked(engine, c, cronSearch, "crons:search");
    const { limit = 10, offset = 0, sort_by: sortBy = "created_at", sort_order: sortOrder = "desc" } = body;
    const filter = await filterOf(engine, c, body, within);
    const crons = filter === null ? [] : await searchCrons(deps.db, filter, { sortBy, sortOrder, limit, offset });
    const total = filter === null ? 0 : await countCrons(deps.db, filter);
    pageHeaders(c, { offset, returned: crons.length, total });
    const shown = crons.map((cron) =>
      body.select === undefined ? cronRecord(cron) : select({ ...cronRecord(cron), now: cron.now }, body.select),
    );
    return json(c, shown);
  });

  routes.post("/runs/crons/count", async (c) => {
    const { body, within } = await readAsked(engine, c, cronCount, "crons:search");
    const filter = await filterOf(engine, c, body, within);
    return json(c, filter === null ? 0 : await countCrons(deps.db, filter));
  });

  routes.get("/runs/crons/:cron_id", async (c) => json(c, cronRecord(await found(c))));

  routes.patch("/runs/crons/:cron_id", async (c) => {
    const { body, within } = await readAsked(engine, c, cronPatch, "crons:update", { cron_id: keyOf(c).cronId });
    const { assistantId, threadId, metadata } = await found(c);
    if (!reaches(within, metadata)) throw noCron(keyOf(c).cronId);
    const assistant = await assistantOf(engine, c, assistantId);
    const asked = await askForRun(engine, c, { threadId, body: { ...payloadOf(body), assistant_id: assistantId } });
    const changed = await changeCron(deps, keyOf(c), async (cron) => {
      if (cron.threadId !== null && body.on_run_completed === "delete") {
        throw new EngineError("bad_request", "on_run_completed: delete is for crons without a thread");
      }
      const before = JSON.parse(cron.payload.toString("utf8")) as Payload;
      const payload = { ...before, ...payloadOf(asked.body), assistant_id: before.assistant_id };
      // It stays whose it was.
      const { access = ANY_THREAD, user = null } = JSON.parse(cron.run.toString("utf8")) as CronRun;
      return {
        schedule: body.schedule ?? cron.schedule,
        timeZone: body.timezone ?? cron.timeZone,
        endTime: body.end_time === undefined ? cron.endTime : body.end_time,
        enabled: body.enabled ?? cron.enabled,
        onRunCompleted: body.on_run_completed ?? cron.onRunCompleted,
        metadata: body.metadata ?? cron.metadata,
        ...(await encoded(engine, { ...cron, assistant, payload, who: { access, user } })),
      };
    });
    return json(c, cronRecord(changed));
  });

  routes.delete("/runs/crons/:cron_id", async (c) => {
    await deleteCron(deps, keyOf(c));
    return c.body(null, 204);
  });

  /** What became of each of its times, missed and skipped ones too; newest first. */
  routes.get("/v1/crons/:cron_id/firings", async (c) => {
    const firings = await listCronFirings(deps.db, await found(c), readQuery(c, firingList));
    return json(
      c,
      firings.map(({ occurrenceAt, status, reason, times, runId, threadId, createdAt }) => ({
        ...{ occurrence_at: occurrenceAt, status, reason, times, run_id: runId, thread_id: threadId },
        created_at: createdAt,
      })),
    );
  });

  return routes;
}

async function assistantOf(engine: Engine, c: C, id: string): Promise<AssistantRow> {
  const assistant = await engine.assistant({ tenantId: c.get("tenantId"), idOrGraphId: id });
  const isThere = assistant !== undefined && engine.graphs.has(assistant.graphId);
  if (isThere && (await mayUseAssistant(engine, c, assistant))) return assistant;
  throw new EngineError("not_found", `No assistant found for ${JSON.stringify(id)}`);
}

/** Null: nothing can be found, since there is no such assistant. */
async function filterOf(
  engine: Engine,
  c: C,
  { assistant_id: id, thread_id: threadId, enabled, metadata }: z.output<typeof cronCount>,
  within: Within,
): Promise<CronFilter | null> {
  const tenantId = c.get("tenantId");
  const assistant = id === undefined ? undefined : await engine.assistant({ tenantId, idOrGraphId: id });
  if (id !== undefined && assistant === undefined) return null;
  const assistantId: AssistantId | null = assistant?.assistantId ?? null;
  return {
    ...{ tenantId, assistantId, threadId: (threadId as ThreadId | undefined) ?? null },
    ...{ enabled: enabled ?? null, metadata: metadata ?? null, within },
  };
}

/** What was given of what its runs are asked. */
function payloadOf(body: Readonly<Record<string, unknown>>): Payload {
  const given = Object.keys(CRON_RUN_FIELDS).filter((name) => body[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, body[name]])) as Payload;
}

type Asked = Readonly<{
  tenantId: CronKey["tenantId"];
  threadId: ThreadId | null;
  assistant: AssistantRow;
  payload: Payload;
  /** Who made it, and what its runs may reach therefore. */
  who: Readonly<{ access: RunAccess; user: AuthUser | null }>;
}>;

/** As it was asked for, and as its runs are made of it. Throws for what a run would be refused for. */
async function encoded(engine: Engine, { tenantId, threadId, assistant, payload, who }: Asked) {
  refuseWebhook(engine, payload);
  const policy = engine.policyOf(assistant.graphId);
  const by = { caller: UNKNOWN, user: who.user };
  const context = { priority: null, headers: new Headers(), ...by, threadTtl: null, waits: false };
  const input = runInput(payload, { tenantId, threadId, assistant, policy, ...context });
  const [idle] = await refuseUnknown(engine, input);
  if (idle !== undefined)
    throw new EngineError("bad_request", `${idle}: names no node of graph "${assistant.graphId}"`);
  const { request, metadata, multitaskStrategy, webhook = null } = input;
  const run: CronRun = { request, metadata, multitaskStrategy, webhook, ...who };
  return { payload: Buffer.from(JSON.stringify(payload)), run: Buffer.from(JSON.stringify(run)) };
}

function cronRecord(cron: CronRow) {
  return {
    ...{ cron_id: cron.cronId, assistant_id: cron.assistantId, thread_id: cron.threadId },
    ...{ on_run_completed: cron.onRunCompleted, end_time: cron.endTime, schedule: cron.schedule },
    ...{ timezone: cron.timeZone, created_at: cron.createdAt, updated_at: cron.updatedAt },
    payload: JSON.parse(cron.payload.toString("utf8")) as unknown,
    ...{ user_id: cron.userId, next_run_date: cron.nextAt, metadata: cron.metadata, enabled: cron.enabled },
  };
}
