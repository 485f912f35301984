// Cancels several runs, one after the other: each as if it had been asked for alone.
import { reaches, type Within } from "../../core/access.js";
import type { Deps } from "../../core/deps.js";
import { EngineError, unlessGone } from "../../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { RunStatus } from "../../core/run.js";
import { getRun, runsWithStatus } from "../../runs/runs.js";
import { getThread } from "../../runs/threads.js";
import { cancelRun } from "./cancel-run.js";
import { rollBackRun } from "./roll-back-runs.js";

const AT_ONCE = 500;
const REASON = "cancelled by a client";

export type CancelMany = Readonly<{
  tenantId: TenantId;
  /** Only those of it. */
  threadId: ThreadId | null;
  which: Readonly<{ runIds: readonly RunId[] }> | Readonly<{ statuses: readonly RunStatus[] }>;
  action: "interrupt" | "rollback";
  /** Only those of threads that who asks may see. */
  within?: Within;
  moveAfterMs: number;
}>;

/** Throws `not_found`, and changes nothing, when one of the named runs isn't there. */
export async function cancelRuns(deps: Deps, cancel: CancelMany): Promise<void> {
  const { which } = cancel;
  if ("runIds" in which) {
    const runs = await namedRuns(deps, cancel, which.runIds);
    for (const run of runs) await end(deps, cancel, run);
    return;
  }
  const page = { ...cancel, statuses: which.statuses, limit: AT_ONCE };
  for (let after = -1; ; ) {
    const runs = await runsWithStatus(deps.db, { ...page, after });
    for (const run of runs) await end(deps, cancel, run);
    const last = runs.at(-1);
    if (last === undefined || runs.length < AT_ONCE) return;
    after = last.seq;
  }
}

type Found = Readonly<{ threadId: ThreadId; runId: RunId }>;

async function namedRuns(deps: Deps, cancel: CancelMany, runIds: readonly RunId[]): Promise<Found[]> {
  const { tenantId, threadId, within = null } = cancel;
  const found: Found[] = [];
  for (const runId of new Set(runIds)) {
    const run = await getRun(deps.db, { tenantId, runId, ...(threadId !== null && { threadId }) });
    const thread = run && within !== null ? await getThread(deps.db, run) : undefined;
    const isTheirs = within === null || (thread !== undefined && reaches(within, thread.metadata));
    if (run === undefined || !isTheirs)
      throw new EngineError("not_found", `Run ${runId} not found`, { details: { run_id: runId } });
    found.push(run);
  }
  return found;
}

async function end(deps: Deps, { tenantId, action, moveAfterMs }: CancelMany, run: Found): Promise<void> {
  const { threadId, runId } = run;
  const key = { tenantId, threadId, runId, moveAfterMs };
  await unlessGone(action === "rollback" ? rollBackRun(deps, key) : cancelRun(deps, { ...key, reason: REASON }));
}
