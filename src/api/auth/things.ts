// What a path names, and by what it is known whose that is: a thread by its metadata, what is of a thread by its thread.
import type { Context } from "hono";
import { getApproval } from "../../approvals/approvals.js";
import { getAssistant } from "../../assistants/queries.js";
import { reaches, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import type { ApprovalId, CronId, DeliveryId, FollowupId, RunId, TenantId, ThreadId } from "../../core/ids.js";
import { listDeliveries } from "../../delivery/deliveries.js";
import { touchThread } from "../../engine/adopt/on-touch.js";
import { noCron } from "../../engine/commands/change-cron.js";
import { threadNotFound } from "../../engine/commands/patch-thread.js";
import type { Engine } from "../../engine/engine.js";
import { getRun } from "../../runs/runs.js";
import { getThread } from "../../runs/threads.js";
import { getCron } from "../../schedule/crons.js";
import { getFollowup } from "../../schedule/followups.js";
import type { ApiEnv } from "../env.js";
import { pathId } from "../request.js";

type C = Context<ApiEnv>;

export type Thing = Readonly<{
  /** As handlers are told it. */
  ids(c: C): Readonly<Record<string, string>>;
  /** With its metadata; undefined when it isn't there. */
  find(engine: Engine, c: C): Promise<Readonly<{ metadata: unknown }> | undefined>;
  /** That it isn't there, as the routes say it. */
  gone(c: C): Error;
}>;

const tenantOf = (c: C): TenantId => c.get("tenantId");

/** The thread, also one that nobody lists, and one that is adopted now. */
async function findThread(engine: Engine, c: C, threadId: ThreadId) {
  const key = { tenantId: tenantOf(c), threadId };
  await touchThread(engine, key, null);
  return getThread(engine.deps.db, key);
}

/** Whether the caller reaches a thread that a request names somewhere. One that isn't there is for the command to miss. */
export async function reachesThread(engine: Engine, c: C, threadId: string, within: Within): Promise<boolean> {
  if (within === null) return true;
  const thread = await findThread(engine, c, threadId as ThreadId);
  return thread === undefined || reaches(within, thread.metadata);
}

const threadId = (c: C) => pathId<ThreadId>(c, "thread_id");
const runId = (c: C) => pathId<RunId>(c, "run_id");

export const THREAD: Thing = {
  ids: (c) => ({ thread_id: threadId(c) }),
  async find(engine, c) {
    const thread = await findThread(engine, c, threadId(c));
    if (thread?.ephemeral === false) c.set("thread", thread);
    return thread;
  },
  gone: (c) => threadNotFound({ tenantId: tenantOf(c), threadId: threadId(c) }),
};

const runNotFound = (c: C) => new EngineError("not_found", "Run not found", { details: { run_id: runId(c) } });

export const RUN_OF_THREAD: Thing = {
  ids: (c) => ({ thread_id: threadId(c), run_id: runId(c) }),
  find: THREAD.find,
  gone: runNotFound,
};

export const RUN: Thing = {
  ids: (c) => ({ run_id: runId(c) }),
  async find(engine, c) {
    const run = await getRun(engine.deps.db, { tenantId: tenantOf(c), runId: runId(c) });
    return run && findThread(engine, c, run.threadId);
  },
  gone: runNotFound,
};

export const ASSISTANT: Thing = {
  ids: (c) => ({ assistant_id: c.req.param("assistant_id") ?? "" }),
  find: (engine, c) =>
    getAssistant(engine.deps.db, { tenantId: tenantOf(c), idOrGraphId: c.req.param("assistant_id") ?? "" }),
  gone: () => new EngineError("not_found", "Assistant not found"),
};

const cronId = (c: C) => pathId<CronId>(c, "cron_id");

export const CRON: Thing = {
  ids: (c) => ({ cron_id: cronId(c) }),
  find: (engine, c) => getCron(engine.deps.db, { tenantId: tenantOf(c), cronId: cronId(c) }),
  gone: (c) => noCron(cronId(c)),
};

/** What says itself of which thread it is; of none it is nobody's whose threads are counted. */
function ofThread(
  what: string,
  name: string,
  threadOf: (engine: Engine, c: C) => Promise<Readonly<{ threadId: ThreadId | null }> | undefined>,
): Thing {
  return {
    ids: () => ({}),
    async find(engine, c) {
      const found = await threadOf(engine, c);
      if (found === undefined) return undefined;
      const thread = found.threadId === null ? undefined : await findThread(engine, c, found.threadId);
      return thread ?? { metadata: {} };
    },
    gone: (c) => new EngineError("not_found", `${what} ${pathId(c, name)} not found`),
  };
}

export const APPROVAL = ofThread("Approval", "approval_id", ({ deps }, c) =>
  getApproval(deps.db, { tenantId: tenantOf(c), approvalId: pathId<ApprovalId>(c, "approval_id") }),
);
export const FOLLOWUP = ofThread("Follow-up", "followup_id", ({ deps }, c) =>
  getFollowup(deps.db, { tenantId: tenantOf(c), followupId: pathId<FollowupId>(c, "followup_id") }),
);
export const DELIVERY = ofThread("Delivery", "delivery_id", async ({ deps }, c) => {
  const key = { tenantId: tenantOf(c), deliveryId: pathId<DeliveryId>(c, "delivery_id") };
  const [delivery] = await listDeliveries(deps.db, { ...key, threadId: null, status: null, limit: 1, offset: 0 });
  return delivery;
});
