// Waits for a run to end, whoever executes it and wherever.
import { EngineError } from "../../core/errors.js";
import { isTransientDbError } from "../../core/retry.js";
import { isFinished } from "../../core/run.js";
import type { RunOfThread } from "../../runs/runs.js";
import type { Engine } from "../engine.js";
import type { RunKey } from "../reads.js";
import { createNews } from "./news.js";

export type Wait = RunKey &
  Readonly<{
    signal: AbortSignal;
    pollMs?: number;
    /** It was accepted just now: there will be news of it. */
    isNew?: boolean;
    /** True when it needs not be looked at any more. */
    enough?: () => boolean;
  }>;

/**
 * The run once it is finished: also a run that sleeps is waited for. Undefined when the signal was aborted before, or it is
 * enough. One that was accepted just now (`isNew`) is not looked at before there is news of it. Throws `not_found` when the run is
 * deleted.
 */
export async function awaitRun(
  { deps, reads }: Pick<Engine, "deps" | "reads">,
  wait: Wait,
): Promise<RunOfThread | undefined> {
  const { runId, signal, pollMs, enough = () => false } = wait;
  const news = createNews(deps, { topics: ["ended"], runId, signal, heartbeatMs: Number.POSITIVE_INFINITY, pollMs });
  try {
    if (wait.isNew === true && !reads.heardEnd(runId)) await news.wait();
    while (!signal.aborted && !enough()) {
      news.forget();
      const run = await look(reads, wait);
      if (run !== "database_away" && isFinished(run.status)) return run;
      await news.wait();
    }
    return undefined;
  } finally {
    news.close();
  }
}

async function look(reads: Engine["reads"], { tenantId, runId }: RunKey): Promise<RunOfThread | "database_away"> {
  try {
    const run = await reads.run({ tenantId, runId });
    if (run === undefined) throw new EngineError("not_found", `Run ${runId} not found`);
    return run;
  } catch (error) {
    if (!isTransientDbError(error)) throw error;
    return "database_away";
  }
}
