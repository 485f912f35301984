// Runs: made on a thread or without one, watched, waited for, listed, cancelled.
import { type Context, Hono } from "hono";
import type { RunAccess } from "../../core/access.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { PRIORITY, type Priority } from "../../core/run.js";
import { touchThread } from "../../engine/adopt/on-touch.js";
import { awaitBriefly } from "../../engine/await-briefly.js";
import { cancelRun } from "../../engine/commands/cancel-run.js";
import type { CreateRunInput } from "../../engine/commands/create-run.js";
import { createRunOnce, type MadeRun, type Once, runMadeBefore } from "../../engine/commands/make-once.js";
import type { Engine } from "../../engine/engine.js";
import { rollBackRun } from "../../engine/commands/roll-back-runs.js";
import { refuseUrgent } from "../../engine/refuse-urgent.js";
import { graphShape, refuseUnknown } from "../../engine/refuse-unknown.js";
import { runRecord } from "../../engine/run-record.js";
import { runResult } from "../../engine/run-result.js";
import { awaitRun } from "../../engine/stream/await-run.js";
import { getRun, listRuns, type RunRow } from "../../runs/runs.js";
import { userOf } from "../auth/ask.js";
import { askForRun, mayUseAssistant } from "../auth/ask-run.js";
import { callerOf } from "../caller.js";
import type { ApiEnv } from "../env.js";
import { asEngineError } from "../http-errors.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json, select } from "../reply.js";
import { nameIgnored, pathId, readBody, readQuery } from "../request.js";
import { runInput } from "../run-input.js";
import { runShape } from "../../engine/run-shape.js";
import {
  ownSettingsOf,
  type RunCreate,
  runCancel,
  runCreate,
  runJoin,
  runList,
  runStream,
  runStreamCreate,
  statelessRunCreate,
} from "../schemas/runs.js";
import { cancelWhenGone, type OnDisconnect } from "../on-disconnect.js";
import { jsonWhenReady, noEvents, sse } from "../sse.js";
import { findThread } from "./threads.js";

export type C = Context<ApiEnv>;

/** Proxies cut off what is silent for longer. */
const MAX_WAIT_SECONDS = 60;

export function runRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  for (const kind of ["stateful", "stateless"] as const) {
    const base = kind === "stateful" ? "/threads/:thread_id/runs" : "/runs";
    routes.post(base, async (c) => {
      const { run, again } = await create(engine, c, kind, "background");
      const seconds = preferredWait(c.req.header("prefer"));
      if (seconds === undefined) return json(c, await runShape(engine, run));
      return resultOrLocation(engine, c, run, { seconds, isNew: !again });
    });
    routes.post(`${base}/stream`, async (c) => {
      const { namespace: namespaces } = readQuery(c, runStreamCreate);
      const { run, onDisconnect } = await create(engine, c, kind, "stream");
      const path = kind === "stateful" ? `/threads/${run.threadId}/runs/${run.runId}` : `/runs/${run.runId}`;
      // Who comes back asks for what is here, and nothing more.
      const again = new URLSearchParams({ last_event_id: "-1" });
      for (const namespace of namespaces ?? []) again.append("namespace", namespace);
      if (onDisconnect !== undefined) again.set("cancel_on_disconnect", "true");
      c.header("Location", `${path}/stream?${again}`);
      return sse(c, engine, run, { afterId: -1, namespaces, onDisconnect });
    });
    routes.post(`${base}/wait`, async (c) => {
      const { run, again, onDisconnect } = await create(engine, c, kind, "wait");
      return result(engine, c, run, { isNew: !again, onDisconnect });
    });
  }

  routes.get("/threads/:thread_id/runs", async (c) => {
    const { select: fields, ...filter } = readQuery(c, runList);
    const { threadId } = await findThread(engine, c);
    const runs = await listRuns(engine.deps.db, { ...filter, tenantId: c.get("tenantId"), threadId });
    const shapes = [];
    for (const run of runs) shapes.push(select(await runShape(engine, run, fields), fields));
    return json(c, shapes);
  });

  routes.get("/threads/:thread_id/runs/:run_id", async (c) =>
    json(c, await runShape(engine, await findRun(engine, c))),
  );

  routes.get("/threads/:thread_id/runs/:run_id/record", async (c) =>
    json(c, await runRecord(engine, await findRun(engine, c))),
  );

  routes.get("/threads/:thread_id/runs/:run_id/join", async (c) => {
    const { cancel_on_disconnect: cancels } = readQuery(c, runJoin);
    const run = await findRun(engine, c);
    return result(engine, c, run, {
      isNew: false,
      onDisconnect: cancels ? cancelWhenGone(engine, run, { returning: true }) : undefined,
    });
  });

  for (const path of ["/threads/:thread_id/runs/:run_id/stream", "/runs/:run_id/stream"]) {
    routes.get(path, async (c) => {
      const query = readQuery(c, runStream);
      const run = await findRun(engine, c);
      const afterId = lastEventId(c.req.header("Last-Event-ID") || query.last_event_id);
      // Which of the events before it came after a checkpoint isn't known: clients take the whole run as well.
      if ((afterId ?? -1) === -1 && endedIn(run, query.checkpoint_id)) return noEvents(c);
      return sse(c, engine, run, {
        afterId,
        modes: query.stream_mode === undefined ? undefined : new Set<string>(query.stream_mode),
        namespaces: query.namespace,
        onDisconnect: query.cancel_on_disconnect ? cancelWhenGone(engine, run, { returning: true }) : undefined,
      });
    });
  }

  routes.delete("/threads/:thread_id/runs/:run_id", async (c) => {
    const { tenantId, threadId, runId } = await findRun(engine, c);
    await rollBackRun(engine.deps, { tenantId, threadId, runId, moveAfterMs: engine.edits.moveAfterMs });
    return c.body(null, 204);
  });

  routes.post("/threads/:thread_id/runs/:run_id/cancel", async (c) => {
    const { wait, action, reason } = readQuery(c, runCancel);
    const { tenantId, threadId, runId } = await findRun(engine, c);
    if (action === "rollback") {
      await rollBackRun(engine.deps, { tenantId, threadId, runId, moveAfterMs: engine.edits.moveAfterMs });
      return c.body(null, wait ? 204 : 202);
    }
    // A cancelled run has ended when the command returns, wherever its worker is: there is nothing to wait for.
    await cancelRun(engine.deps, {
      tenantId,
      threadId,
      runId,
      reason: reason === "taken" ? "taken: its input was absorbed by another run" : "cancelled by a client",
      moveAfterMs: engine.edits.moveAfterMs,
    });
    return c.body(null, wait ? 204 : 202);
  });

  return routes;
}

type Created = Readonly<{
  run: RunRow;
  /** An earlier request with the same key has made it. */
  again: boolean;
  onDisconnect: OnDisconnect | undefined;
}>;

/** Makes the run of a request; afterwards the answer names it, whatever else it holds. */
async function create(
  engine: Engine,
  c: C,
  kind: "stateful" | "stateless",
  how: "background" | "stream" | "wait",
): Promise<Created> {
  const threadId = kind === "stateful" ? pathId<ThreadId>(c, "thread_id") : null;
  const body: RunCreate = await readBody(c, kind === "stateful" ? runCreate : statelessRunCreate);
  refuseUnmeetable(engine, body, how);
  const { run, again } = await makeRun(engine, c, { threadId, body, waits: how === "wait" });
  if (again) markReplayed(c);
  const path = threadId === null ? `/runs/${run.runId}` : `/threads/${threadId}/runs/${run.runId}`;
  c.header("Content-Location", path);
  return {
    run,
    again,
    onDisconnect: body.on_disconnect === "cancel" ? cancelWhenGone(engine, run, { returning: false }) : undefined,
  };
}

type Asked = Readonly<{
  threadId: ThreadId | null;
  body: RunCreate;
  waits: boolean;
  /** It is watched over the thread protocol. */
  protocol?: boolean;
  /** What makes it known when it comes again, where that isn't the header and the whole body. */
  once?: Once | null;
}>;

type Allowed = Asked & Readonly<{ access: RunAccess }>;

/** Accepts a run; `again`: an earlier request with the same key had made it. Refuses as `createRun` does, and what isn't there. */
export async function makeRun(engine: Engine, c: C, given: Asked): Promise<MadeRun> {
  const asked = await askForRun(engine, c, given);
  const once = given.once === undefined ? onceOf(engine, c) : given.once;
  const before = once === null ? undefined : await runMadeBefore(engine.deps, once);
  if (before !== undefined) return { run: before, again: true };
  const make = (fresh: boolean) => makeWith(engine, c, { ...asked, once, fresh });
  return againIfChanged(make);
}

/** Read from memory an assistant may be a second old: what would begin with what doesn't count any more isn't accepted, and is made anew. */
export function againIfChanged<T>(make: (fresh: boolean) => Promise<T>): Promise<T> {
  return make(false).catch((error: unknown) => {
    if (!isEngineError(error, "assistant_changed")) throw error;
    return make(true);
  });
}

async function makeWith(
  engine: Engine,
  c: C,
  { once, ...asked }: Omit<Allowed, "once"> & Readonly<{ once: Once | null; fresh: boolean }>,
): Promise<MadeRun> {
  const input = await inputOf(engine, c, asked);
  if (once !== null) return createRunOnce(engine.deps, input, once).catch(asRefusal);
  return { run: await engine.acceptRun(input).catch(asRefusal), again: false };
}

/** What a request asks for, looked at as far as it can be before it is accepted. `fresh`: its assistant isn't taken from memory. */
export async function inputOf(
  engine: Engine,
  c: C,
  { threadId, body, waits, protocol = false, fresh, access }: Allowed & Readonly<{ fresh: boolean }>,
): Promise<CreateRunInput> {
  const tenantId = c.get("tenantId");
  const assistant = await engine.assistant({ tenantId, idOrGraphId: body.assistant_id, fresh });
  const isThere = assistant !== undefined && engine.graphs.has(assistant.graphId);
  if (!isThere || !(await mayUseAssistant(engine, c, assistant))) throw noAssistant(engine, body.assistant_id);
  const { headers } = c.req.raw;
  const who = { caller: callerOf(engine, c), user: userOf(c), access };
  const policy = engine.policyOf(assistant.graphId);
  const priority = await wantedPriority(engine, tenantId, body);
  const { threadTtl } = engine;
  const { configurableHeaders: headerRules } = engine;
  const given = { tenantId, headers, headerRules, ...who };
  const from = { ...given, threadId, assistant, policy, priority, threadTtl, waits, protocol };
  const asked = runInput(body, from);
  if (threadId !== null) await touchThread(engine, { tenantId, threadId }, assistant.graphId);
  nameIgnored(c, await refuseUnknown(engine, asked));
  const answers = (asked.request.command?.resume ?? null) !== null;
  return answers ? { ...asked, graph: await graphShape(engine, asked) } : asked;
}

/** What can't be done for a request that nobody stays connected for, or at all. */
export function refuseUnmeetable(engine: Engine, body: RunCreate, how: "background" | "stream" | "wait"): void {
  if (body.on_disconnect === "cancel" && how === "background") {
    throw new EngineError(
      "bad_request",
      "on_disconnect: cancel needs a connection that stays; use /runs/stream or /runs/wait",
    );
  }
  refuseWebhook(engine, body);
}

/** Null: the request says nothing. Throws `forbidden` when its tenant may not ask for as much. */
async function wantedPriority(engine: Engine, tenantId: TenantId, body: RunCreate): Promise<Priority | null> {
  const { priority } = ownSettingsOf(body);
  if (priority === undefined) return null;
  await refuseUrgent(engine.deps.db, tenantId, priority);
  return PRIORITY[priority];
}

/** Throws `bad_request` for a completion webhook that may not go there. */
export function refuseWebhook(engine: Engine, { webhook }: Pick<RunCreate, "webhook">): void {
  const refusal = webhook === undefined ? undefined : engine.webhookRefusal(webhook);
  if (refusal !== undefined) throw new EngineError("bad_request", `webhook: ${refusal}`);
}

/** Stock clients expect 422 here, though it is a conflict. */
function asRefusal(error: unknown): never {
  if (isEngineError(error, "thread_busy")) {
    throw new EngineError("bad_request", error.message, { cause: error, details: error.details });
  }
  throw error;
}

function noAssistant({ readiness }: Engine, id: string): EngineError {
  if (!readiness.prepared) return new EngineError("unavailable", "This process is still starting");
  return new EngineError(
    "not_found",
    `No assistant found for ${JSON.stringify(id)}. Make sure the assistant ID is for a valid assistant or a valid graph ID.`,
  );
}

async function findRun(engine: Engine, c: C): Promise<RunRow> {
  const runId = pathId<RunId>(c, "run_id");
  const key = { tenantId: c.get("tenantId"), runId };
  const onThread = c.req.param("thread_id") !== undefined;
  const run = await getRun(engine.deps.db, onThread ? { ...key, threadId: pathId<ThreadId>(c, "thread_id") } : key);
  if (run === undefined) throw new EngineError("not_found", "Run not found", { details: { run_id: runId } });
  return run;
}

/** Seconds that a caller would wait for the end (RFC 7240), as far as we let it; undefined when it would not. */
function preferredWait(prefer: string | undefined): number | undefined {
  const [, seconds] = /(?:^|,)\s*wait\s*=\s*"?(\d+)"?\s*(?:$|[,;])/i.exec(prefer ?? "") ?? [];
  return seconds === undefined ? undefined : Math.min(Number(seconds), MAX_WAIT_SECONDS);
}

/** 200 with the result when it is there in time, else 202 and where it will be. */
async function resultOrLocation(
  engine: Engine,
  c: C,
  run: RunRow,
  { seconds, isNew }: Readonly<{ seconds: number; isNew: boolean }>,
): Promise<Response> {
  c.header("Preference-Applied", `wait=${seconds}`);
  const { signal } = c.req.raw;
  const fresh = isNew && run.status === "pending" && run.attempt === 0;
  const ended = await awaitBriefly(engine, run, { waitMs: seconds * 1_000, isNew: fresh, signal });
  if (ended !== undefined) return json(c, await runResult(engine, ended));
  c.header("Location", `/threads/${run.threadId}/runs/${run.runId}/join`);
  const { tenantId, runId } = run;
  return json(c, await runShape(engine, (await getRun(engine.deps.db, { tenantId, runId })) ?? run), 202);
}

/** The run's result once it has ended. */
function result(
  engine: Engine,
  c: C,
  run: RunRow,
  { isNew, onDisconnect }: Readonly<{ isNew: boolean; onDisconnect: OnDisconnect | undefined }>,
): Response {
  return jsonWhenReady(c, engine, run, onDisconnect, async (signal) => {
    const { tenantId, runId } = run;
    const expected = engine.handover.expect(runId);
    try {
      const ended = await awaitRun(engine, {
        tenantId,
        runId,
        signal,
        isNew: isNew && run.status === "pending" && run.attempt === 0,
        enough: () => expected.result() !== undefined,
      });
      const handed = expected.result();
      if (handed !== undefined) return JSON.stringify(handed.value);
      return ended && JSON.stringify(await runResult(engine, ended));
    } catch (error) {
      const known = asEngineError(error);
      if (known === undefined) throw error;
      // The status is out already: what went wrong is told in the form in which a run's own error is.
      return JSON.stringify({ __error__: { error: known.code, message: known.message } });
    } finally {
      expected.close();
    }
  });
}

/** Whether a client that shows this state has nothing more to hear of the run. */
function endedIn({ status, resultCheckpointId }: RunRow, checkpointId: string | undefined): boolean {
  return checkpointId !== undefined && status === "success" && resultCheckpointId === checkpointId;
}

/** Undefined: from now on. */
function lastEventId(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^(-1|\d{1,15})$/.test(text)) return Number(text);
  throw new EngineError("bad_request", "Last-Event-ID: must be an id that this stream sent, or -1 for all events");
}
