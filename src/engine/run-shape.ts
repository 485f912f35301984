// A run as the wire shows it.
import { isBodyLost, isEngineError } from "../core/errors.js";
import { decodeRequest } from "./commands/request.js";
import type { Engine } from "./engine.js";
import { loadRunContent } from "./run-content.js";
import { endedBy } from "../core/run.js";
import type { RunRow } from "../runs/runs.js";

/** `fields`: those that will be shown; what a run was asked is read only when it is among them. */
export async function runShape(engine: Engine, run: RunRow, fields?: readonly string[]) {
  return {
    run_id: run.runId,
    thread_id: run.threadId,
    assistant_id: run.assistantId,
    created_at: run.createdAt,
    updated_at: run.updatedAt,
    status: run.status,
    metadata: run.metadata,
    ...(fields === undefined || fields.includes("kwargs") ? await asked(engine, run) : {}),
    multitask_strategy: run.multitaskStrategy,
    assistant_version: run.assistantVersion,
    ...(run.cancelReason === null ? {} : { cancel_reason: run.cancelReason }),
    ...(endedBy(run) === null ? {} : { ended_by: endedBy(run) }),
  };
}

/** A run whose request is lost or expired is still a run, and hides no other in a list: it says what can't be read. */
async function asked(
  engine: Engine,
  run: RunRow,
): Promise<Readonly<{ kwargs: Readonly<Record<string, unknown>>; error?: string }>> {
  try {
    const { request } = await loadRunContent(engine.deps, run.tenantId, run.runId, {
      stream: false,
      bodyReader: engine.bodyReader,
    });
    if (request === null) return { kwargs: {} };
    const { stream_subgraphs: subgraphs, ...rest } = decodeRequest(request);
    return { kwargs: { ...rest, subgraphs, resumable: true } };
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "expired")) throw error;
    return { kwargs: {}, error: error.message };
  }
}
