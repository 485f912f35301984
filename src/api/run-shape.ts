// A run as the wire shows it.
import { decodeRequest } from "../engine/commands/request.js";
import type { Engine } from "../engine/engine.js";
import { loadRunContent } from "../engine/run-content.js";
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
    kwargs: fields === undefined || fields.includes("kwargs") ? await kwargs(engine, run) : undefined,
    multitask_strategy: run.multitaskStrategy,
    ...(run.cancelReason === null ? {} : { cancel_reason: run.cancelReason }),
  };
}

async function kwargs(engine: Engine, run: RunRow): Promise<Readonly<Record<string, unknown>>> {
  const { request } = await loadRunContent(engine.deps, run.tenantId, run.runId, { stream: false });
  if (request === null) return {};
  const { stream_subgraphs: subgraphs, ...rest } = decodeRequest(request);
  return { ...rest, subgraphs, resumable: true };
}
