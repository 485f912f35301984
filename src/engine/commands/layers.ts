// What a run is asked and labelled with: the assistant's, the thread's and its own, the later over the earlier.
import { PRIORITY, type Priority } from "../../core/run.js";
import type { LockedThread } from "../../runs/thread-lock.js";
import type { AcceptedInput } from "./create-run.js";
import type { RunConfig, RunRequest } from "./request.js";

/** A run's metadata: its own over its thread's over its assistant's. */
export function metadataOf({ assistant, metadata }: AcceptedInput, thread: Pick<LockedThread, "metadata">) {
  const { graphId, assistantId } = assistant;
  return { ...assistant.metadata, ...thread.metadata, ...metadata, graph_id: graphId, assistant_id: assistantId };
}

/** Assistant, thread and run settings as the wire merges them: the later wins, `configurable` key by key. */
export function mergeRequest(
  request: RunRequest,
  input: AcceptedInput,
  thread: Pick<LockedThread, "config">,
): RunRequest {
  // Parsed by the doors before they were stored.
  const assistantConfig = input.assistant.config as RunConfig;
  const layers = [assistantConfig, thread.config as RunConfig, request.config];
  const configurable: Record<string, unknown> = Object.assign({}, ...layers.map((layer) => layer.configurable ?? {}));
  const tags = request.config.tags ?? assistantConfig.tags;
  const limit = request.config.recursion_limit ?? assistantConfig.recursion_limit;
  return {
    ...request,
    config: {
      ...(tags === undefined ? {} : { tags }),
      ...(limit === undefined ? {} : { recursion_limit: limit }),
      configurable,
    },
    context: { ...(input.assistant.context as RunRequest["context"]), ...request.context },
  };
}

/** Whether a run continues from the head and asks again what was asked there: answers do, and no input at all. */
export function goesOn({ input, command, checkpoint }: RunRequest): boolean {
  return command === null ? input === null && checkpoint === null : (command.resume ?? null) !== null;
}

/** As was asked for, else by what the run does. */
export function priorityOf({
  priority,
  request,
}: Readonly<{ priority: Priority | null; request: RunRequest }>): Priority {
  return priority ?? (goesOn(request) ? PRIORITY.resumed : PRIORITY.interactive);
}
