// What a run that ended gives to whoever waits for it: its own result, also when the thread has moved on since.
import { EngineError } from "../core/errors.js";
import type { RunError } from "../core/run.js";
import type { RunRow } from "../runs/runs.js";
import { getThread } from "../runs/threads.js";
import { newestCheckpointOfRun } from "../checkpoint/queries.js";
import type { Engine } from "./engine.js";
import { renderJson, type Json } from "./render.js";
import { loadRunContent } from "./run-content.js";
import { getStateAt } from "./state.js";

/**
 * The final values; `{__interrupt__: […]}` while its questions are open; `{__error__: {error, message}}` when it failed.
 * The run must have ended. Throws `not_found` when its thread is gone.
 */
export async function runResult(engine: Engine, run: RunRow): Promise<Json> {
  const { tenantId, threadId, runId } = run;
  if (run.status === "error" || run.status === "timeout") {
    const { error } = await loadRunContent(engine.deps, tenantId, runId, { stream: false });
    const { type, message } = (error ?? {
      type: run.errorType ?? "Error",
      message: run.errorPreview ?? "",
    }) as RunError;
    return { __error__: { error: type, message } };
  }
  const thread = await getThread(engine.deps.db, { tenantId, threadId });
  if (thread === undefined) throw new EngineError("not_found", `Thread with ID ${threadId} not found`);
  const checkpointId = run.resultCheckpointId ?? (await newestCheckpointOfRun(engine.deps.db, run));
  if (checkpointId === undefined) return {};
  const state = await getStateAt(
    engine,
    { tenantId, thread },
    { checkpoint_id: checkpointId, checkpoint_ns: "" },
    { subgraphs: false },
  );
  const open = run.waitsFor === "approval" ? state.interrupts : [];
  return renderJson(open.length > 0 ? { __interrupt__: open } : state.values) ?? null;
}
