// A state as the wire shows it: LangGraph's snapshot with checkpoints, tasks and open questions under the wire's names.
import type { StateSnapshot } from "@langchain/langgraph";
import type { OpenInterrupt } from "../checkpoint/pending.js";
import { askedOnce, shownToClients } from "./hitl.js";
import { remainingNodes } from "./open-questions.js";
import { sleepOf } from "./sleep.js";

export type WireCheckpoint = Readonly<{
  thread_id: string;
  checkpoint_ns: string;
  checkpoint_id: string | null;
  checkpoint_map: Readonly<Record<string, unknown>> | null;
}>;

export type WireInterrupt = Readonly<{ id?: string; value?: unknown }>;

export type WireTask = Readonly<{
  id: string;
  name: string;
  path: readonly unknown[];
  error: string | null;
  interrupts: readonly WireInterrupt[];
  checkpoint: Readonly<Record<string, unknown>> | null;
  /** What a subgraph asks stands with its tasks, and with the root. */
  state: Omit<ThreadState, "interrupts"> | null;
  result: unknown;
}>;

/** Values and results may hold messages and anything else a graph's state has: to be rendered, not stringified. */
export type ThreadState = Readonly<{
  values: unknown;
  next: readonly string[];
  tasks: readonly WireTask[];
  metadata: Readonly<Record<string, unknown>>;
  created_at: string | null;
  checkpoint: WireCheckpoint | null;
  parent_checkpoint: WireCheckpoint | null;
  interrupts: readonly WireInterrupt[];
}>;

/** What a thread without a graph, or without a checkpoint yet, answers. */
export const EMPTY_STATE: ThreadState = {
  values: {},
  next: [],
  tasks: [],
  metadata: {},
  created_at: null,
  checkpoint: null,
  parent_checkpoint: null,
  interrupts: [],
};

/**
 * LangGraph answers a checkpoint that isn't there with a snapshot that has no date: that is the empty state.
 * With `open`, tasks show their open questions only; without, everything they ever asked, which is history.
 */
export function toThreadState(snapshot: StateSnapshot, open?: readonly OpenInterrupt[]): ThreadState {
  if (snapshot.createdAt === undefined) return EMPTY_STATE;
  const tasks = snapshot.tasks.map((task) => {
    const asked = open?.filter(({ taskId }) => taskId === task.id).map(({ id, value }) => ({ id, value }));
    return toWireTask(task, asked ?? task.interrupts);
  });
  return {
    values: snapshot.values,
    next: open === undefined ? snapshot.next : remainingNodes(snapshot, open),
    tasks,
    metadata: withoutRootNamespace(snapshot.metadata),
    created_at: snapshot.createdAt,
    checkpoint: toWireCheckpoint(snapshot.config),
    parent_checkpoint: toWireCheckpoint(snapshot.parentConfig),
    interrupts: askedOnce(tasks.flatMap((task) => task.interrupts)),
  };
}

function toWireTask(task: StateSnapshot["tasks"][number], interrupts: readonly WireInterrupt[]): WireTask {
  const { state } = task;
  const isState = state !== undefined && "values" in state;
  return {
    id: task.id,
    name: task.name,
    path: task.path ?? [],
    error: errorText(task.error),
    interrupts: questions(interrupts),
    checkpoint: state === undefined || isState ? null : addressOf(state.configurable),
    state: isState ? withoutQuestions(toThreadState(state)) : null,
    result: (task as { result?: unknown }).result ?? null,
  };
}

function withoutQuestions({ interrupts: _asked, ...state }: ThreadState): Omit<ThreadState, "interrupts"> {
  return state;
}

/** A sleep is an interrupt to LangGraph, but no question to anybody. */
function questions(interrupts: readonly WireInterrupt[]): WireInterrupt[] {
  const asked = interrupts.filter((interrupt) => sleepOf(interrupt.value) === undefined);
  return asked.map((interrupt) => ({ ...interrupt, value: shownToClients(interrupt.value) }));
}

function errorText(error: unknown): string | null {
  if (error === undefined || error === null) return null;
  const { message } = error as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(error);
}

type Configurable = Readonly<Record<string, unknown>> | undefined;

/** Only a config that names a checkpoint is one. */
function toWireCheckpoint(config: Readonly<{ configurable?: object }> | undefined): WireCheckpoint | null {
  const configurable = config?.configurable as Configurable;
  if (typeof configurable?.thread_id !== "string" || typeof configurable.checkpoint_id !== "string") return null;
  return {
    thread_id: configurable.thread_id,
    checkpoint_ns: String(configurable.checkpoint_ns ?? ""),
    checkpoint_id: configurable.checkpoint_id,
    checkpoint_map: (configurable.checkpoint_map as WireCheckpoint["checkpoint_map"] | undefined) ?? null,
  };
}

/** Where a subgraph's own states are: thread and namespace, with no checkpoint named. */
function addressOf(configurable: Configurable): Readonly<Record<string, unknown>> | null {
  if (configurable === undefined) return null;
  const names = ["thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"];
  return Object.fromEntries(Object.entries(configurable).filter(([key]) => names.includes(key)));
}

function withoutRootNamespace(metadata: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  const { checkpoint_ns, ...rest } = metadata ?? {};
  return checkpoint_ns === undefined || checkpoint_ns === "" ? rest : { ...rest, checkpoint_ns };
}
