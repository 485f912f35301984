// Whether what was parked by other code can go on with this: LangGraph passes over a node that is gone, and the run would end in
// success with the answer lost.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { pendingNodes, stateKeys } from "../checkpoint/pending.js";
import { EngineError } from "../core/errors.js";

type GraphShape = Readonly<{ nodes: object; channels: object }>;

export type Misfit = Readonly<{
  /** Nodes that are to be entered and are not in the graph: it can't go on. */
  nodes: readonly string[];
  /** Keys of the state that the graph does not have: it can go on, without them. */
  keys: readonly string[];
}>;

/** What of a checkpoint the graph has no place for. */
export function misfitOf(graph: GraphShape, head: CheckpointTuple | undefined): Misfit {
  return {
    nodes: lackedNodes(graph, pendingNodes(head)),
    keys: stateKeys(head).filter((key) => !Object.hasOwn(graph.channels, key)),
  };
}

export function lackedNodes(graph: Pick<GraphShape, "nodes">, nodes: readonly string[]): string[] {
  return nodes.filter((node) => !Object.hasOwn(graph.nodes, node));
}

/** Throws `graph_changed` when the graph lacks a node that is to be entered. */
export function refuseMisfit(
  graph: Pick<GraphShape, "nodes">,
  nodes: readonly string[],
  of: Readonly<{ graphId: string; version: string; threadId: string }>,
): void {
  const gone = lackedNodes(graph, nodes);
  if (gone.length === 0) return;
  const names = gone.map((node) => JSON.stringify(node)).join(", ");
  throw new EngineError(
    "graph_changed",
    `Thread ${of.threadId} is to go on in ${names}, which graph "${of.graphId}" (version ${of.version}) does not have any more; ` +
      "deploy code that has it and answer again, or fork from an earlier checkpoint. `perdure check` lists all such threads",
    { details: { thread_id: of.threadId, graph_id: of.graphId, version: of.version, nodes: gone } },
  );
}
