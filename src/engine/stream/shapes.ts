// The wire's shapes of checkpoints and tasks as LangGraph streams them: snake_case, checkpoints by reference, nothing internal.
import { shownToClients } from "../hitl.js";
import { sleepOf } from "../sleep.js";

type Fields = Readonly<Record<string, unknown>>;

type CheckpointRef = Readonly<{
  thread_id: unknown;
  checkpoint_id: unknown;
  checkpoint_ns: unknown;
  checkpoint_map: unknown;
}>;

/** The checkpoint a LangGraph config points to, as clients send it back. */
function checkpointOf(config: unknown, options: Readonly<{ idNeeded: boolean }>): CheckpointRef | null {
  const configurable = fieldsOf(fieldsOf(config)?.configurable);
  if (configurable === undefined || !configurable.thread_id) return null;
  if (options.idNeeded && typeof configurable.checkpoint_id !== "string") return null;
  return {
    thread_id: configurable.thread_id,
    checkpoint_id: configurable.checkpoint_id ?? null,
    checkpoint_ns: configurable.checkpoint_ns ?? "",
    checkpoint_map: configurable.checkpoint_map ?? null,
  };
}

/** A task whose `state` is only the address of its subgraph's state shows that address as `checkpoint`. */
export function taskShape(task: unknown): Fields {
  const given = fieldsOf(task) ?? {};
  const fields = Array.isArray(given.interrupts)
    ? { ...given, interrupts: given.interrupts.map(questionShape) }
    : given;
  const checkpoint = checkpointOf(fields.state, { idNeeded: false });
  if (checkpoint === null) return fields;
  const { state: _address, ...rest } = fields;
  return { ...rest, checkpoint };
}

/** An interrupt as every client reads it. */
function questionShape(interrupt: unknown): unknown {
  const fields = fieldsOf(interrupt);
  return fields === undefined ? interrupt : { ...fields, value: shownToClients(fields.value) };
}

/** A checkpoint as the modes `debug` and `checkpoints` get it from LangGraph. */
export function checkpointShape(payload: Fields): Fields {
  const { parentConfig, ...rest } = payload;
  return {
    ...rest,
    config: publicConfig(payload.config),
    checkpoint: checkpointOf(payload.config, { idNeeded: true }),
    parent_config: publicConfig(parentConfig),
    parent_checkpoint: checkpointOf(parentConfig, { idNeeded: true }),
    tasks: Array.isArray(payload.tasks) ? payload.tasks.map(taskShape) : [],
  };
}

function publicConfig(config: unknown): unknown {
  const fields = fieldsOf(config);
  if (fields === undefined) return config;
  const { callbacks: _callbacks, ...rest } = fields;
  const configurable = fieldsOf(fields.configurable);
  if (configurable === undefined) return rest;
  const shown = Object.entries(configurable).filter(([key]) => !key.startsWith("__"));
  return { ...rest, configurable: Object.fromEntries(shown) };
}

export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** The questions among interrupts: those the engine asks itself (a sleep) are nobody's to answer. */
export function openInterrupts(interrupts: unknown): readonly unknown[] | "internal" {
  const list: readonly unknown[] = Array.isArray(interrupts) ? interrupts : [];
  const open = list.filter((interrupt) => sleepOf(fieldsOf(interrupt)?.value) === undefined);
  return list.length > 0 && open.length === 0 ? "internal" : open.map(questionShape);
}

/** The task in whose namespace something ran: `outer:<id>|inner:<id>` names the innermost last. */
export function taskOf(metadata: unknown): readonly string[] {
  const ns = fieldsOf(metadata)?.langgraph_checkpoint_ns;
  if (typeof ns !== "string" || ns === "") return [];
  return [ns.slice(ns.lastIndexOf(":") + 1)];
}
