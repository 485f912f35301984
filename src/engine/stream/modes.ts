// Turns what a graph streams into events of the wire, each with its gate: what must be durable before a client may see it.
import { isBaseMessage } from "@langchain/core/messages";
import { type Gate, NOW, type Outgoing, outgoingEvent as event, SETTLE, STEP } from "./gates.js";
import { createMessagesMode, isToken } from "./messages-mode.js";
import type { StreamPlan } from "./plan.js";
import { checkpointShape, fieldsOf, openInterrupts, taskOf, taskShape } from "./shapes.js";
import type { GraphEvent, Source, SourceItem } from "./source.js";

type Chunk = Extract<SourceItem, { kind: "chunk" }>;

/**
 * What is to be sent for each chunk of the source, in order. Data is rendered when it is asked for, as it comes: nodes may change
 * their objects later. `before` says what else comes, before it.
 */
export function outgoing(
  source: Pick<Source, "itemOf">,
  plan: StreamPlan,
  before?: (chunk: Chunk) => Iterable<Outgoing>,
): (chunk: unknown) => Iterable<Outgoing> {
  const convert = createConverter(plan);
  return (chunk) => {
    const item = source.itemOf(chunk);
    if (item === undefined) return [];
    return item.kind === "chunk" && before !== undefined ? joined(before(item), convert(item)) : convert(item);
  };
}

function* joined(first: Iterable<Outgoing>, second: Iterable<Outgoing>): Iterable<Outgoing> {
  yield* first;
  yield* second;
}

function createConverter(plan: StreamPlan): (item: SourceItem) => Iterable<Outgoing> {
  const messages = createMessagesMode();
  const running = new Map<string, string>();
  /** Tasks inside which something has ended. */
  const ended = new Set<string>();
  /** Questions, by event. */
  const told = new Set<string>();
  const name = (mode: string, ns: readonly string[]): string =>
    plan.subgraphs && ns.length > 0 ? `${mode}|${ns.join("|")}` : mode;
  const shown = (mode: Parameters<typeof plan.modes.has>[0], ns: readonly string[]): boolean =>
    plan.modes.has(mode) && (plan.subgraphs || ns.length === 0);

  function* onChunk({ ns, mode, payload }: Chunk): Iterable<Outgoing> {
    switch (mode) {
      case "values":
        if (shown("values", ns)) yield* stepEvent(name("values", ns), payload, told);
        if (plan.modes.has("messages") && (plan.subgraphs || ns.length === 0)) {
          const complete = messages.completed(payload);
          if (complete.length > 0) yield event("messages/complete", complete, STEP);
        }
        return;
      case "updates":
        if (shown("updates", ns)) yield* stepEvent(name("updates", ns), payload, told);
        return;
      case "messages":
        yield* onMessage(ns, payload as readonly [unknown, unknown]);
        return;
      case "tasks":
        yield* onTask(ns, fieldsOf(payload) ?? {});
        return;
      case "debug":
        if (shown("debug", ns)) yield* debugEvent(name("debug", ns), fieldsOf(payload) ?? {});
        return;
      case "checkpoints": {
        const fields = fieldsOf(payload) ?? {};
        // With subgraphs LangGraph sends checkpoints without values as well, for another protocol.
        if (!("values" in fields) || !shown("checkpoints", ns)) return;
        const { values, metadata, next } = fields;
        yield event(name("checkpoints", ns), { values, metadata, next }, STEP);
        return;
      }
      case "tools":
        if (shown("tools", ns)) yield toolEvent(name("tools", ns), ns, payload);
        return;
      case "custom":
        // Shown from every depth: a subgraph's writer is its caller's.
        if (plan.modes.has("custom")) yield event(name("custom", ns), payload, NOW);
        return;
    }
  }

  function* onMessage(ns: readonly string[], [message, metadata]: readonly [unknown, unknown]): Iterable<Outgoing> {
    const token = isToken(message);
    if (shown("messages-tuple", ns)) {
      // What a graph elsewhere says comes as plain objects, and is of none of our tasks.
      const gate: Gate = token || !isBaseMessage(message) ? NOW : { kind: "tasks", tasks: taskOf(metadata) };
      yield event(name("messages", ns), [message, metadata], gate);
    }
    if (token && plan.modes.has("messages")) {
      for (const [eventName, data] of messages.token(message, metadata)) yield event(eventName, data, NOW);
    }
  }

  function* onTask(ns: readonly string[], task: Readonly<Record<string, unknown>>): Iterable<Outgoing> {
    const id = String(task.id);
    const result = "result" in task;
    if (result) {
      running.delete(id);
      yield { kind: "task_done", taskId: id, toolCallIds: answeredToolCalls(task.result) };
    } else running.set(id, ns.join("|"));
    if (!shown("tasks", ns)) return;
    const open = result ? openInterrupts(task.interrupts) : [];
    if (open === "internal") return;
    yield event(name("tasks", ns), taskShape(task), open.length > 0 ? SETTLE : STEP);
  }

  /** Which task a tool ran in isn't said: it is the one that answers its call, at the latest one that runs now. */
  function toolEvent(eventName: string, ns: readonly string[], payload: unknown): Outgoing {
    const { event: kind, toolCallId } = fieldsOf(payload) ?? {};
    if (kind !== "on_tool_end" && kind !== "on_tool_error") return event(eventName, payload, NOW);
    const tasks = [...running].filter(([, taskNs]) => taskNs === ns.join("|")).map(([id]) => id);
    const gate: Gate = { kind: "tasks", tasks, ...(typeof toolCallId === "string" ? { toolCallId } : {}) };
    return event(eventName, payload, gate);
  }

  /**
   * Outcomes of what ran inside a task are as durable as the task's result; the rest shows what goes on. What starts inside
   * a task may be given what the task has just made: its input is shown with its end.
   */
  function* onEvent(graphEvent: GraphEvent): Iterable<Outgoing> {
    const { event: kind, data, tags } = graphEvent;
    const tasks = taskOf(graphEvent.metadata);
    const inside: Gate = { kind: "tasks", tasks };
    if (/_(end|error)$/.test(kind)) {
      for (const task of tasks) ended.add(task);
      yield event("events", graphEvent, inside);
    } else if (kind.endsWith("_start") && tags?.some((tag) => tag.startsWith("graph:step:"))) {
      yield event("events", graphEvent, STEP);
    } else if (kind.endsWith("_start")) {
      const made = tasks.some((task) => kind === "on_chain_start" || ended.has(task));
      yield event("events", made ? { ...graphEvent, data: { ...fieldsOf(data), input: undefined } } : graphEvent, NOW);
    } else {
      const chunk = fieldsOf(data)?.chunk;
      const whole = kind === "on_chain_stream" && typeof chunk !== "string" && !isToken(chunk);
      yield event("events", graphEvent, whole ? inside : NOW);
    }
  }

  return (item) => (item.kind === "chunk" ? onChunk(item) : onEvent(item.event));
}

/**
 * Values or updates; those that carry questions wait until they can be answered. A question that several tasks ask, since their calls
 * are one intent, is told once: clients gather them.
 */
function* stepEvent(name: string, payload: unknown, told: Set<string>): Iterable<Outgoing> {
  const fields = fieldsOf(payload);
  if (fields === undefined || !("__interrupt__" in fields)) {
    yield event(name, payload, STEP);
    return;
  }
  const open = openInterrupts(fields.__interrupt__);
  if (open === "internal") return;
  const fresh = open.filter((question) => isFirst(told, name, fieldsOf(question)?.id));
  if (fresh.length === 0 && open.length > 0 && Object.keys(fields).length === 1) return;
  yield event(name, { ...fields, __interrupt__: fresh }, SETTLE);
}

function isFirst(told: Set<string>, name: string, id: unknown): boolean {
  if (typeof id !== "string") return true;
  const key = `${name} ${id}`;
  if (told.has(key)) return false;
  told.add(key);
  return true;
}

function* debugEvent(name: string, debug: Readonly<Record<string, unknown>>): Iterable<Outgoing> {
  const payload = fieldsOf(debug.payload) ?? {};
  if (debug.type === "checkpoint") {
    yield event(name, { ...debug, payload: checkpointShape(payload) }, STEP);
    return;
  }
  const open = debug.type === "task_result" ? openInterrupts(payload.interrupts) : [];
  if (open === "internal") return;
  yield event(name, { ...debug, payload: taskShape(payload) }, open.length > 0 ? SETTLE : STEP);
}

/** Ids of the tool calls whose answers are among a task's result. */
function answeredToolCalls(result: unknown): readonly string[] {
  const values = Object.values(fieldsOf(result) ?? {}).flatMap((value): unknown[] =>
    Array.isArray(value) ? value : [value],
  );
  const ids = values.map((value) => fieldsOf(value)?.tool_call_id);
  return ids.filter((id): id is string => typeof id === "string");
}
