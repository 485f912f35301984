// JSON schemas of a graph, from what it carries at run time (zod or LangGraph's state schema); where a graph was typed
// only in TypeScript, its channels by name. Sources are never parsed: that takes seconds.
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

export function graphSchemas(graph: RunnableGraph): GraphSchemas {
  return {
    input: runtimeSchema(getInputTypeSchema, graph) ?? channelSchema(graph, inputKeys(graph)),
    output: runtimeSchema(getOutputTypeSchema, graph) ?? channelSchema(graph, keyList(graph.outputChannels)),
    state: runtimeSchema(getStateTypeSchema, graph) ?? channelSchema(graph, keyList(graph.streamChannelsAsIs)),
    config: runtimeSchema(getConfigTypeSchema, graph),
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
