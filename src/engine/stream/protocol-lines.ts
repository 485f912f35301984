// What a run started over the thread protocol stores beside its values, updates and custom events: models' answers piece by
// piece, tools, tasks, the names of checkpoints, and when its subgraphs begin and end. Each line holds what stands in an event's
// `params` after namespace and time, so that readers pass it on without parsing it.
import { isCheckpointEnvelope, type ProtocolEvent } from "@langchain/langgraph";
import { convertToProtocolEvent } from "@langchain/langgraph/stream";
import { type Gate, NOW, type Outgoing, outgoingEvent, SETTLE, STEP, type StreamEvent } from "./gates.js";
import { protocolName, RESULTS, TIME_LINE } from "./protocol-names.js";
import { fieldsOf, openInterrupts, taskOf, taskShape } from "./shapes.js";
import type { SourceItem } from "./source.js";
import type { RunnableGraph } from "../graphs.js";
import { createTransformers, type TransformerFactory, type Transformers } from "./transformers.js";

type Chunk = Extract<SourceItem, { kind: "chunk" }>;

/** Events are told the time of the line before them that holds one: they are later by less than this. */
const TIME_STEP_MS = 50;

export type Protocol = Readonly<{
  /** What comes for a chunk, before what any run stores of it. */
  lines: (chunk: Chunk) => Iterable<Outgoing>;
  /** What is left to be said when the graph has come to its end. */
  last: () => Promise<readonly StreamEvent[]>;
  /** The graph has failed. */
  fail: (error: unknown) => void;
}>;

/** What is to be stored of one attempt of a graph, for the thread protocol. */
export function tellProtocol(graph: RunnableGraph, nowMs: () => number): Protocol {
  const own = graph.streamTransformers as readonly TransformerFactory[] | undefined;
  const transformers = createTransformers(own ?? []);
  return {
    lines: createLines(transformers, nowMs),
    last: () => lastLines(transformers),
    fail: (error) => transformers.fail(error),
  };
}

function createLines(transformers: Transformers, nowMs: () => number): Protocol["lines"] {
  let toldMs = Number.NEGATIVE_INFINITY;

  function* time(): Iterable<Outgoing> {
    const now = Math.round(nowMs());
    if (now - toldMs < TIME_STEP_MS) return;
    toldMs = now;
    yield outgoingEvent(TIME_LINE, now, NOW);
  }

  return function* (chunk) {
    const { ns, mode, payload } = chunk;
    yield* time();
    // Its type is of the modes that LangGraph has; what it doesn't know makes no event.
    const asked = { namespace: [...ns], mode: mode as "values", payload, seq: 0 };
    for (const event of convertToProtocolEvent(asked)) {
      const { made, kept } = transformers.pass(event);
      for (const more of made) yield line(more, endsSubgraph(more) ? STEP : NOW);
      if (kept) yield* own(chunk, event);
    }
  };
}

async function lastLines(transformers: Transformers): Promise<readonly StreamEvent[]> {
  const last = await transformers.end();
  // When the run's subgraphs are over follows from when it is.
  const lines = last.filter(({ method }) => method !== "lifecycle").map((event) => line(event, SETTLE));
  return lines.flatMap((out) => (out.kind === "event" ? [out.event] : []));
}

function* own({ ns, mode, payload }: Chunk, event: ProtocolEvent): Iterable<Outgoing> {
  switch (mode) {
    case "messages":
      yield line(event, messageGate((payload as readonly unknown[])[1]));
      return;
    case "tools":
      yield line(event, toolGate(fieldsOf(event.params.data) ?? {}, ns));
      return;
    case "checkpoints":
      if (isCheckpointEnvelope(payload)) yield line(event, STEP);
      return;
    case "tasks":
      yield* taskLine(event);
      return;
  }
}

/** What a model says passes at once; a message that a node returns waits until the node's task is stored. */
function messageGate(metadata: unknown): Gate {
  return fieldsOf(metadata)?.ls_model_type === "chat" ? NOW : { kind: "tasks", tasks: taskOf(metadata) };
}

function toolGate(
  { event: kind, tool_call_id: toolCallId }: Readonly<Record<string, unknown>>,
  ns: readonly string[],
): Gate {
  if (kind !== "tool-finished" && kind !== "tool-error") return NOW;
  const tasks = taskOf({ langgraph_checkpoint_ns: ns.join("|") });
  return { kind: "tasks", tasks, ...(typeof toolCallId === "string" ? { toolCallId } : {}) };
}

function* taskLine({ params: { namespace, data } }: ProtocolEvent): Iterable<Outgoing> {
  const task = fieldsOf(data) ?? {};
  const result = "result" in task;
  const open = result ? openInterrupts(task.interrupts) : [];
  if (open === "internal") return;
  // What grows comes first: a line keeps only what differs from the one before, from the first difference on.
  const { input, ...rest } = taskShape(task);
  const shown = result ? taskShape(task) : { input, ...rest };
  const name = protocolName(result ? RESULTS : "tasks", namespace);
  yield outgoingEvent(name, { data: shown }, open.length > 0 ? SETTLE : STEP);
}

function line({ method, params }: ProtocolEvent, gate: Gate): Outgoing {
  const { namespace, data, node } = params as ProtocolEvent["params"] & Readonly<{ node?: string }>;
  return outgoingEvent(protocolName(method, namespace), node === undefined ? { data } : { node, data }, gate);
}

function endsSubgraph({ method, params }: ProtocolEvent): boolean {
  return method === "lifecycle" && fieldsOf(params.data)?.event !== "started";
}
