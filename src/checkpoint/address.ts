// Where a checkpoint is, as LangGraph names it in a config.
import type { RunnableConfig } from "@langchain/core/runnables";
import { getCheckpointId } from "@langchain/langgraph-checkpoint";
import { EngineError } from "../core/errors.js";
import { isUuid } from "../core/ids.js";
import type { Address } from "./drafts.js";

/** For writes: every part must be there and well formed. `newId` is that of the checkpoint to put. */
export function addressOf(config: RunnableConfig, newId?: string): Address {
  const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
  if (typeof thread_id !== "string" || !isUuid(thread_id)) throw badConfig("thread_id", thread_id);
  if (typeof checkpoint_ns !== "string") throw badConfig("checkpoint_ns", checkpoint_ns);
  for (const id of [checkpoint_id || newId, newId]) {
    if (id !== undefined && !(typeof id === "string" && isUuid(id))) throw badConfig("checkpoint_id", id);
  }
  return { threadId: thread_id, ns: checkpoint_ns, checkpointId: checkpoint_id || null };
}

/** For reads: undefined when nothing can be found under such names. */
export function readAddressOf(config: RunnableConfig): Address | undefined {
  const { thread_id, checkpoint_ns = "" } = config.configurable ?? {};
  const checkpointId = getCheckpointId(config) || null;
  if (typeof thread_id !== "string" || !isUuid(thread_id) || typeof checkpoint_ns !== "string") return undefined;
  if (checkpointId !== null && !isUuid(checkpointId)) return undefined;
  return { threadId: thread_id, ns: checkpoint_ns, checkpointId };
}

export function placeOf({ threadId, ns, checkpointId }: Address): string {
  return `${threadId}\0${ns}\0${checkpointId ?? ""}`;
}

export function badConfig(key: string, value: unknown): EngineError {
  const given =
    value === undefined || value === null ? "is missing" : `${JSON.stringify(String(value).slice(0, 80))} is no id`;
  return new EngineError("bad_request", `configurable.${key} ${given}: a checkpoint can't be written without it.`);
}
