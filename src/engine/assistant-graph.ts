// What people may know about an assistant's graph without running it: its drawing, its schemas, its subgraphs.
import type { AssistantRow } from "../assistants/queries.js";
import { type GraphSchemas, graphSchemas } from "./graph-schemas.js";
import type { Graphs, RunnableGraph } from "./graphs.js";

type Described = Pick<AssistantRow, "graphId" | "config" | "context">;

/** The graph as nodes and edges; `xray` opens subgraphs, all of them or down to a depth. */
export async function drawGraph(
  graphs: Graphs,
  assistant: Described,
  xray: boolean | number,
): Promise<Readonly<Record<string, unknown>>> {
  const graph = await graphOf(graphs, assistant);
  // LangGraph's types don't know `xray`, its code does.
  const drawable = await graph.getGraphAsync({ xray } as Parameters<RunnableGraph["getGraphAsync"]>[0]);
  return drawable.toJSON();
}

export async function describeSchemas(graphs: Graphs, assistant: Described): Promise<GraphSchemas> {
  return graphSchemas(await graphOf(graphs, assistant));
}

/** Schemas of the subgraphs by namespace: of one namespace or all, with those inside them when `recurse`. */
export async function describeSubgraphs(
  graphs: Graphs,
  assistant: Described,
  options: Readonly<{ namespace: string | undefined; recurse: boolean }>,
): Promise<Readonly<Record<string, GraphSchemas>>> {
  const graph = await graphOf(graphs, assistant);
  const found: Record<string, GraphSchemas> = {};
  for await (const [namespace, subgraph] of graph.getSubgraphsAsync(options.namespace, options.recurse)) {
    found[namespace] = graphSchemas(subgraph as RunnableGraph);
  }
  return found;
}

function graphOf(graphs: Graphs, assistant: Described): Promise<RunnableGraph> {
  const configurable = assistant.config.configurable as Readonly<Record<string, unknown>> | undefined;
  return graphs.get(assistant.graphId, { ...(configurable && { configurable }), context: assistant.context });
}
