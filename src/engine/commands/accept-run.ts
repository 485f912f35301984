// The quick way to accept a run: those that find their thread free, which most do, share one statement with those that come
// at the same time. The others are created one by one.
import { batched } from "../../core/batch.js";
import type { Deps } from "../../core/deps.js";
import type { RunId, ThreadId } from "../../core/ids.js";
import { isTransientDbError } from "../../core/retry.js";
import { acceptRuns, type PlainRun } from "../../runs/accept.js";
import type { RunRow } from "../../runs/runs.js";
import { createRun, type CreateRunInput, mergeRequest, priorityOf } from "./create-run.js";
import { encodeRequest } from "./request.js";

/** Like `createRun`, and fails like it. */
export type AcceptRun = (input: CreateRunInput) => Promise<RunRow>;

/** So many are accepted by one statement at most. */
const AT_ONCE = 50;

export function createAcceptor(deps: Deps): AcceptRun {
  const accept = batched<PlainRun, RunRow | undefined>(AT_ONCE, (runs) => acceptTogether(deps, runs));
  return async (input) => {
    const accepted = isPlain(input) ? await accept(plainRun(deps, input)) : undefined;
    if (accepted === undefined) return createRun(deps, input);
    deps.notifier.notify("runs");
    return accepted;
  };
}

/** Neither an answer nor delayed: all it needs is a free thread. */
function isPlain({ request, afterSeconds }: CreateRunInput): boolean {
  return (request.command?.resume ?? null) === null && !(afterSeconds !== null && afterSeconds > 0);
}

function plainRun(deps: Deps, input: CreateRunInput): PlainRun {
  const { tenantId, assistant, threadId } = input;
  const { assistantId, graphId } = assistant;
  return {
    tenantId,
    runId: deps.ids.next<RunId>(),
    threadId: threadId ?? deps.ids.next<ThreadId>(),
    newThread: threadId === null ? { ephemeral: input.onCompletion === "delete" } : null,
    assistantId,
    graphId,
    priority: priorityOf(input.request),
    multitaskStrategy: input.multitaskStrategy,
    metadataBelow: assistant.metadata,
    metadata: { ...input.metadata, graph_id: graphId, assistant_id: assistantId },
    threadMetadata: { graph_id: graphId, assistant_id: assistantId },
    request: encodeRequest(mergeRequest(input.request, input, { config: {} })),
  };
}

/** Undefined for those that have to look first. One that can't be stored at all must not take the others with it. */
async function acceptTogether(deps: Deps, runs: readonly PlainRun[]): Promise<(RunRow | undefined)[]> {
  const first = new Map(runs.map((run) => [`${run.tenantId} ${run.threadId}`, run]));
  const oneEach = [...first.values()];
  try {
    const accepted = await acceptRuns(deps.db, oneEach);
    const byId = new Map(oneEach.map(({ runId }, i) => [runId, accepted[i]]));
    return runs.map(({ runId }) => byId.get(runId));
  } catch (error) {
    if (isTransientDbError(error)) throw error;
    return runs.map(() => undefined);
  }
}
