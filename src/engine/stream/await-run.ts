// Waits for a run to end, whoever executes it and wherever.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, TenantId } from "../../core/ids.js";
import { isTransientDbError } from "../../core/retry.js";
import { isFinished } from "../../core/run.js";
import { getRun, type RunRow } from "../../runs/runs.js";
import { createNews } from "./news.js";

/**
 * The run once it is finished: also a run that sleeps is waited for. Undefined when the signal was aborted before.
 * Throws `not_found` when the run is deleted.
 */
export async function awaitRun(
  deps: Deps,
  wait: Readonly<{ tenantId: TenantId; runId: RunId; signal: AbortSignal; pollMs?: number }>,
): Promise<RunRow | undefined> {
  const { runId, signal, pollMs } = wait;
  const news = createNews(deps, { runId, signal, heartbeatMs: Number.POSITIVE_INFINITY, pollMs });
  try {
    while (!signal.aborted) {
      news.forget();
      const run = await look(deps, wait);
      if (run !== "database_away" && isFinished(run.status)) return run;
      await news.wait();
    }
    return undefined;
  } finally {
    news.close();
  }
}

async function look(
  deps: Deps,
  key: Readonly<{ tenantId: TenantId; runId: RunId }>,
): Promise<RunRow | "database_away"> {
  try {
    const run = await getRun(deps.db, { tenantId: key.tenantId, runId: key.runId });
    if (run === undefined) throw new EngineError("not_found", `Run ${key.runId} not found`);
    return run;
  } catch (error) {
    if (!isTransientDbError(error)) throw error;
    return "database_away";
  }
}
