// What people may know about an assistant's graph without running it: its drawing, its schemas, its subgraphs.
import type { AssistantRow } from "../assistants/queries.js";
import { type GraphSchemas, graphSchemas } from "./graph-schemas.js";
import type { Graphs, RunnableGraph } from "./graphs.js";
import { staticSchemas } from "./static-schemas.js";

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
  return graphSchemas(await graphOf(graphs, assistant), () => fromSources(graphs, assistant.graphId, ""));
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
    const sources = () => fromSources(graphs, assistant.graphId, namespace);
    found[namespace] = await graphSchemas(subgraph as RunnableGraph, sources);
  }
  return found;
}

async function fromSources(graphs: Graphs, graphId: string, namespace: string): Promise<GraphSchemas | undefined> {
  const exported = graphs.exported(graphId);
  return exported === null ? undefined : (await staticSchemas(exported)).get(namespace);
}

function graphOf(graphs: Graphs, assistant: Described): Promise<RunnableGraph> {
  const configurable = assistant.config.configurable as Readonly<Record<string, unknown>> | undefined;
  return graphs.get(assistant.graphId, { ...(configurable && { configurable }), context: assistant.context });
}
