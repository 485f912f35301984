// The quick way to accept a run: those that find their thread free, which most do, share one statement with those that come
// at the same time, and with the claim of this process's worker if it has free slots. The others are created one by one.
import { batched } from "../../core/batch.js";
import type { Deps } from "../../core/deps.js";
import type { RunId, ThreadId } from "../../core/ids.js";
import { isTransientDbError } from "../../core/retry.js";
import { acceptRuns, type PlainRun } from "../../runs/accept.js";
import type { RunRow } from "../../runs/runs.js";
import type { Slots } from "../slots.js";
import { createRun, type CreateRunInput } from "./create-run.js";
import { goesOn, mergeRequest, priorityOf } from "./layers.js";
import { mergeWindowOf } from "./merge-messages.js";
import { encodeRequest } from "./request.js";

/** Like `createRun`, and fails like it. */
export type AcceptRun = (input: CreateRunInput) => Promise<RunRow>;

/** So many are accepted by one statement at most. */
const AT_ONCE = 50;

export function createAcceptor(deps: Deps, slots: Slots): AcceptRun {
  const accept = batched<PlainRun, RunRow | undefined>(AT_ONCE, (runs) => acceptTogether(deps, slots, runs));
  return async (input) => (isPlain(input) ? await accept(plainRun(deps, input)) : undefined) ?? createRun(deps, input);
}

/** Neither an answer nor delayed, nor waiting for more, nor with somebody to be told or a ttl to be set: all it needs is a free thread. */
function isPlain(input: CreateRunInput): boolean {
  const { request, afterSeconds, conversationId, webhook = null } = input;
  if (conversationId !== null || webhook !== null || input.keepsLast === true || setsTtl(input)) return false;
  if ((request.command?.resume ?? null) !== null || (afterSeconds !== null && afterSeconds > 0)) return false;
  return mergeWindowOf(input) === 0;
}

/** A thread that goes with its run needs none. */
function setsTtl({ threadId, onCompletion, threadTtl, newThreadTtl }: CreateRunInput): boolean {
  if ((threadTtl ?? null) !== null) return true;
  return threadId === null && onCompletion === "keep" && (newThreadTtl ?? null) !== null;
}

function plainRun(deps: Deps, input: CreateRunInput): PlainRun {
  const { tenantId, assistant, threadId } = input;
  const { assistantId, graphId, version = null } = assistant;
  return {
    tenantId,
    runId: deps.ids.next<RunId>(),
    threadId: threadId ?? deps.ids.next<ThreadId>(),
    newThread: threadId === null ? { ephemeral: input.onCompletion === "delete" } : null,
    assistantId,
    assistantVersion: version,
    ifVersionCounts: input.ifVersionCounts ?? false,
    graphId,
    priority: priorityOf(input),
    resumes: goesOn(input.request),
    multitaskStrategy: input.multitaskStrategy,
    metadataBelow: assistant.metadata,
    metadata: { ...input.metadata, graph_id: graphId, assistant_id: assistantId },
    within: input.access?.within ?? {},
    threadMetadata: {
      ...(threadId === null && input.access?.threadMetadata),
      ...{ graph_id: graphId, assistant_id: assistantId },
    },
    request: encodeRequest(mergeRequest(input.request, input, { config: {} })),
  };
}

/** Undefined for those that have to look first. One that can't be stored at all must not take the others with it. */
async function acceptTogether(deps: Deps, slots: Slots, runs: readonly PlainRun[]): Promise<(RunRow | undefined)[]> {
  const first = new Map(runs.map((run) => [`${run.tenantId} ${run.threadId}`, run]));
  const oneEach = [...first.values()];
  const byId = new Map<RunId, RunRow>();
  try {
    const claimed = await slots.fill(oneEach.length, async (claim) => {
      const accepted = await acceptRuns(deps.db, oneEach, claim);
      for (const run of accepted.runs) if (run !== undefined) byId.set(run.runId, run);
      return accepted.claimed;
    });
    const begun = new Set(claimed.map(({ runId }) => runId));
    // The others, if any, are for whoever has a slot.
    if ([...byId.keys()].some((runId) => !begun.has(runId))) deps.notifier.notify("runs");
  } catch (error) {
    if (isTransientDbError(error)) throw error;
  }
  return runs.map(({ runId }) => byId.get(runId));
}
