// JSON schemas of a graph, from what it carries at run time (zod or LangGraph's state schema); where a graph was typed
// only in TypeScript, what its sources say, if they can be read (static-schemas.ts), else its channels by name.
import {
  getConfigTypeSchema,
  getInputTypeSchema,
  getOutputTypeSchema,
  getStateTypeSchema,
} from "@langchain/langgraph/zod/schema";
import type { RunnableGraph } from "./graphs.js";

export type JsonSchema = Readonly<Record<string, unknown>>;

/** What clients build forms from; null where the graph doesn't say. */
export type GraphSchemas = Readonly<{
  input: JsonSchema | null;
  output: JsonSchema | null;
  state: JsonSchema | null;
  config: JsonSchema | null;
}>;

/** `fromSources` is asked for graphs that carry no schema at run time. */
export async function graphSchemas(
  graph: RunnableGraph,
  fromSources: () => Promise<GraphSchemas | undefined>,
): Promise<GraphSchemas> {
  const runtime = {
    input: runtimeSchema(getInputTypeSchema, graph),
    output: runtimeSchema(getOutputTypeSchema, graph),
    state: runtimeSchema(getStateTypeSchema, graph),
    config: runtimeSchema(getConfigTypeSchema, graph),
  };
  const known = Object.values(runtime).some((schema) => schema !== null) ? undefined : await fromSources();
  return {
    input: runtime.input ?? known?.input ?? channelSchema(graph, inputKeys(graph)),
    output: runtime.output ?? known?.output ?? channelSchema(graph, keyList(graph.outputChannels)),
    state: runtime.state ?? known?.state ?? channelSchema(graph, keyList(graph.streamChannelsAsIs)),
    config: runtime.config ?? known?.config ?? null,
  };
}

function runtimeSchema(read: (graph: unknown) => unknown, graph: RunnableGraph): JsonSchema | null {
  try {
    return (read(graph) as JsonSchema | undefined) ?? null;
  } catch {
    // Some zod types have no JSON schema (dates, transforms); the names of the channels are better than nothing.
    return null;
  }
}

/** An object with a property per channel; null for graphs whose value is not an object of channels (entrypoints). */
function channelSchema(graph: RunnableGraph, keys: readonly string[] | null): JsonSchema | null {
  if (keys === null) return null;
  return { type: "object", properties: Object.fromEntries(keys.map((key) => [key, channelType(graph, key)])) };
}

function channelType(graph: RunnableGraph, key: string): JsonSchema {
  const { operator } = (graph.channels[key] ?? {}) as { operator?: { name?: unknown } };
  if (operator?.name !== "messagesStateReducer") return {};
  return { langgraph_type: "messages", type: "array", items: { type: "object" } };
}

/** A StateGraph takes its input on `__start__`, whose keys its builder knows. */
function inputKeys(graph: RunnableGraph): readonly string[] | null {
  const { builder } = graph as { builder?: { _inputDefinition?: object } };
  if (builder?._inputDefinition !== undefined) return Object.keys(builder._inputDefinition);
  return keyList(graph.inputChannels);
}

function keyList(keys: string | readonly string[]): readonly string[] | null {
  return typeof keys === "string" ? null : keys;
}
