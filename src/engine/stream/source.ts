// Runs a graph and hands out what it streams in one form, however it was asked: chunks with namespace and mode, and,
// when asked for, the events of everything inside.
import type { RunnableGraph } from "../graphs.js";
import type { StreamPlan } from "./plan.js";

export type SourceItem =
  | Readonly<{ kind: "chunk"; ns: readonly string[]; mode: string; payload: unknown }>
  | Readonly<{ kind: "event"; event: GraphEvent }>;

/** An event of `streamEvents`, version 2. */
export type GraphEvent = Readonly<{
  event: string;
  name: string;
  run_id: string;
  tags?: readonly string[];
  metadata?: Readonly<Record<string, unknown>>;
  data?: unknown;
}>;

type StreamArguments = Parameters<RunnableGraph["stream"]>;
export type GraphInput = StreamArguments[0];
/** `runId` is required: it tells the graph's own chunks from those of what runs inside it. */
export type GraphOptions = Omit<NonNullable<StreamArguments[1]>, "streamMode" | "subgraphs"> &
  Readonly<{ runId: string }>;

/** Every layer that waits for each chunk costs several promises, so there is one: who reads `chunks` asks what each is. */
export type Source = Readonly<{
  chunks: AsyncIterable<unknown>;
  /** Undefined for what is not to be shown. */
  itemOf(chunk: unknown): SourceItem | undefined;
}>;

/**
 * Starts the graph.
 *
 * @example
 * const { chunks, itemOf } = await openSource(graph, input, { ...config, runId, signal }, planStream(request));
 * for await (const chunk of chunks) show(itemOf(chunk));
 */
export async function openSource(
  graph: RunnableGraph,
  input: GraphInput,
  options: GraphOptions,
  plan: StreamPlan,
): Promise<Source> {
  const { streamMode, subgraphs, events, version } = plan.langgraph;
  if (!events) {
    // What LangGraph's own `streamEvents` does with version 3, without keeping every event until the end.
    const how = version === undefined ? {} : { version };
    // streamMode is a list, so each chunk names its mode.
    const chunks = (await graph.stream(input, { ...options, ...how, streamMode, subgraphs })) as AsyncIterable<unknown>;
    return { chunks, itemOf: (chunk) => asChunk(chunk, subgraphs) };
  }
  return {
    chunks: graph.streamEvents(input, { ...options, version: "v2", streamMode, subgraphs }) as AsyncIterable<unknown>,
    itemOf(chunk) {
      const event = chunk as GraphEvent;
      const isOwn = event.event === "on_chain_stream" && event.run_id === options.runId;
      if (isOwn) return asChunk((event.data as { chunk: unknown }).chunk, subgraphs);
      return event.tags?.includes("langsmith:hidden") ? undefined : { kind: "event", event };
    },
  };
}

function asChunk(chunk: unknown, subgraphs: boolean): SourceItem {
  const tuple = chunk as readonly unknown[];
  const [ns, mode, payload] = subgraphs ? tuple : [[], ...tuple];
  return { kind: "chunk", ns: ns as string[], mode: mode as string, payload };
}
