// A run as the wire shows it.
import { isBodyLost, isEngineError } from "../core/errors.js";
import { decodeRequest, type RunRequest } from "./commands/request.js";
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
    const request = await readRequest(engine, run);
    if (request === null) return { kwargs: {} };
    const { stream_subgraphs: subgraphs, ...rest } = request;
    return { kwargs: { ...rest, subgraphs, resumable: true } };
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "expired")) throw error;
    return { kwargs: {}, error: error.message };
  }
}

/** What a run was asked; null where that is nothing, lost or expired. */
export async function requestOf(engine: Engine, run: RunKey): Promise<RunRequest | null> {
  try {
    return await readRequest(engine, run);
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "expired") && !isEngineError(error, "not_found")) throw error;
    return null;
  }
}

type RunKey = Pick<RunRow, "tenantId" | "runId">;

async function readRequest({ deps, bodyReader }: Engine, { tenantId, runId }: RunKey): Promise<RunRequest | null> {
  const { request } = await loadRunContent(deps, tenantId, runId, { stream: false, bodyReader });
  return request === null ? null : decodeRequest(request);
}
