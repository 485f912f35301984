// Graphs of mode "edge" answer in seconds and do nothing that can't be done again: nothing is stored while they run, only how
// they ended, and after a crash they start again, once. What would have to wait can't be such a graph.
import { EngineError } from "../core/errors.js";
import type { PolicyOf } from "../core/policy.js";
import type { Outcome } from "../core/run.js";
import { effectToolsOf } from "../effects/tool-nodes.js";
import type { Graphs, RunnableGraph } from "./graphs.js";

/** Tries of an edge run, whatever its graph's policy says. */
export const EDGE_ATTEMPTS = 2;

/** What langchain's middleware calls the nodes in which it asks people. */
const ASKING_NODE = /^HumanInTheLoopMiddleware\b/;

/** Throws `graph_invalid` naming every edge graph that would wait for a person or has effects. A factory's graphs are looked at when they run. */
export async function refuseUnfitEdgeGraphs(graphs: Graphs, policyOf: PolicyOf): Promise<void> {
  const problems: string[] = [];
  for (const id of graphs.ids) {
    if (policyOf(id).mode !== "edge") continue;
    const graph = await graphs.get(id).catch(() => null);
    const why = graph === null ? null : unfitBecause(graph);
    if (why !== null) problems.push(unfit(id, why));
  }
  if (problems.length > 0) throw new EngineError("graph_invalid", problems.join("\n"), { details: { problems } });
}

/** Throws `graph_invalid` for the graph of an edge run that would wait for a person or has effects. */
export function refuseUnfit(graphId: string, graph: RunnableGraph): void {
  const why = unfitBecause(graph);
  if (why !== null) throw new EngineError("graph_invalid", unfit(graphId, why));
}

function unfitBecause(graph: RunnableGraph): string | null {
  const { interruptBefore = [], interruptAfter = [] } = graph;
  if (interruptBefore.length > 0 || interruptAfter.length > 0) return "can't wait: it is compiled with breakpoints";
  const [tool] = effectToolsOf(graph);
  if (tool !== undefined) return `can't have effects: its tool "${tool.name}" has ${tool.effect} ones`;
  const asking = Object.keys(graph.nodes).find((node) => ASKING_NODE.test(node));
  return asking === undefined ? null : `can't wait: its node ${asking} asks a person`;
}

function unfit(graphId: string, why: string): string {
  return `graph "${graphId}" has mode "edge" and ${why}; give it mode "durable"`;
}

/** How an edge run ends that stopped in the middle, to wait for a person or an instant: as an error, since it can't be resumed. */
export function edgeOutcome(graphId: string, outcome: Outcome): Outcome {
  if (outcome.kind !== "interrupted" && outcome.kind !== "sleeping") return outcome;
  const { checkpointId } = outcome;
  const why = outcome.kind === "sleeping" ? "it sleeps" : "it calls interrupt()";
  const message = unfit(graphId, `can't wait: ${why}`);
  return {
    kind: "error",
    checkpointId,
    error: { code: "edge_waits", type: "EdgeWaitsError", message },
    waitsFor: null,
  };
}

/** The end of an edge run whose worker died as often as it may be tried. */
export function edgeLost(run: Readonly<{ graphId: string; runId: string; crashes: number }>): Outcome | null {
  if (run.crashes < EDGE_ATTEMPTS) return null;
  const message = `Run ${run.runId} of edge graph "${run.graphId}" killed its worker ${run.crashes} times`;
  return {
    kind: "error",
    checkpointId: null,
    error: { code: "worker_lost", type: "WorkerLostError", message },
    waitsFor: "person",
  };
}
