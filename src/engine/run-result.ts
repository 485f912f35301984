// What a run that ended gives to whoever waits for it: its own result, also when the thread has moved on since.
import { EngineError, isEngineError } from "../core/errors.js";
import type { RunError } from "../core/run.js";
import type { RunOfThread } from "../runs/runs.js";
import { KnowingSaver } from "../checkpoint/saver.js";
import { newestCheckpointOfRun } from "../checkpoint/queries.js";
import type { Engine } from "./engine.js";
import { withGivenOut } from "./executor/given-out.js";
import { renderJson, type Json } from "./render.js";
import { loadRunContent } from "./run-content.js";
import { getStateAt } from "./state.js";

/**
 * The final values; `{__interrupt__: […]}` while its questions are open; `{__error__: {error, message}}` when it failed.
 * The run must have ended. Throws `not_found` when its thread is gone, `expired` when the state it left is.
 */
export async function runResult(engine: Engine, run: RunOfThread): Promise<Json> {
  const { tenantId, threadId, runId, graphId } = run;
  if (run.status === "error" || run.status === "timeout") {
    const { type, message } = await errorOf(engine, run);
    return { __error__: { error: type, message } };
  }
  const checkpointId = run.resultCheckpointId ?? (await newestCheckpointOfRun(engine.deps.db, run));
  if (checkpointId === undefined) return {};
  const tuple = await engine.reads.checkpoint({ tenantId, threadId, checkpointId });
  if (tuple === undefined) {
    throw new EngineError("expired", `The result of run ${runId} is no longer kept: the state it left was pruned`, {
      details: { run_id: runId },
    });
  }
  const known = new Map([[threadId, tuple]]);
  const saver = new KnowingSaver({ sql: engine.deps.db, tenantId, bodies: engine.bodyReader, commit: null }, known);
  // As its own graph sees it, whatever graph the thread went on with.
  const thread = { threadId, metadata: { graph_id: graphId }, config: run.threadConfig };
  const address = { checkpoint_id: checkpointId, checkpoint_ns: "" };
  const state = await getStateAt(engine, { tenantId, thread }, address, { subgraphs: false }, saver);
  const open = run.waitsFor === "approval" ? state.interrupts : [];
  if (open.length > 0) return renderJson({ __interrupt__: open }) ?? null;
  return renderJson(withGivenOut(state.values, tuple)) ?? null;
}

/** Of an error that expired its kind is still known. */
async function errorOf(engine: Engine, run: RunOfThread): Promise<Pick<RunError, "type" | "message">> {
  const known = { type: run.errorType ?? "Error", message: run.errorPreview ?? "" };
  try {
    const { error } = await loadRunContent(engine.deps, run.tenantId, run.runId, {
      stream: false,
      bodyReader: engine.bodyReader,
    });
    return (error as RunError | null) ?? known;
  } catch (error) {
    if (!isEngineError(error, "expired")) throw error;
    return { ...known, message: error.message };
  }
}
