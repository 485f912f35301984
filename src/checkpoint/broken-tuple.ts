// Checkpoints whose content can't be read any more: its object is gone or damaged. That they exist, and where, is still known.
import { type CheckpointTuple, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { type EngineError, isEngineError } from "../core/errors.js";
import type { StoredCheckpoint } from "./queries.js";

export function isBroken(error: unknown): error is EngineError {
  return isEngineError(error, "body_missing") || isEngineError(error, "body_corrupt");
}

/**
 * Has an id; everything else of it throws. LangGraph looks at the newest id only, when it goes on from an older checkpoint:
 * so a broken head can be forked past, and nobody takes it for a state.
 */
export function idOnlyTuple(row: StoredCheckpoint, error: EngineError): CheckpointTuple {
  const throws = {
    get: () => {
      throw error;
    },
    enumerable: true,
  };
  const parts = ["v", "ts", "channel_values", "channel_versions", "versions_seen"];
  const checkpoint = Object.defineProperties(
    { id: row.checkpointId },
    Object.fromEntries(parts.map((part) => [part, throws])),
  );
  const tuple = { config: configOf(row, row.checkpointId), checkpoint };
  return Object.defineProperties(tuple, { metadata: throws, pendingWrites: throws }) as unknown as CheckpointTuple;
}

/** For lists, where one broken checkpoint must not hide the others: empty, and its metadata says why. */
export function markedTuple(row: StoredCheckpoint, error: EngineError): CheckpointTuple {
  const { code, message } = error;
  return {
    config: configOf(row, row.checkpointId),
    checkpoint: { ...emptyCheckpoint(), id: row.checkpointId },
    metadata: { perdure_error: { code, message } } as unknown as NonNullable<CheckpointTuple["metadata"]>,
    ...(row.parentId !== null && { parentConfig: configOf(row, row.parentId) }),
    pendingWrites: [],
  };
}

function configOf({ threadId, ns }: StoredCheckpoint, checkpointId: string) {
  return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId } };
}
