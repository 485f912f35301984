// Nothing is shown before it is durable: passes a run's events on to its stream, each when its gate opens, in order
// wherever the gates allow.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Gate, Outgoing, StreamEvent } from "./gates.js";
import { readAhead } from "./read-ahead.js";

export type ForwardOptions = Readonly<{
  /** Where events go; resolves when there is room for more. */
  push: (event: StreamEvent) => Promise<void>;
  /** Resolves when everything handed to the saver so far is durable; rejects when it won't be. */
  flushed: () => Promise<void>;
}>;

/**
 * Forwards what goes out for each chunk until the graph's stream ends; returns the events that only the settling transaction may show.
 * What `push` or `flushed` reject with it rejects with; the graph's own error comes after everything durable was passed on.
 */
export async function forward(
  chunks: AsyncIterable<unknown>,
  outgoing: (chunk: unknown) => Iterable<Outgoing>,
  { push, flushed }: ForwardOptions,
): Promise<readonly StreamEvent[]> {
  const inbox = readAhead(chunks, outgoing);
  const waiting = createWaitingRoom();
  const final: StreamEvent[] = [];
  const place = async (item: Outgoing): Promise<void> => {
    if (item.kind === "task_done") return;
    const { event, gate } = item;
    if (gate.kind === "settle") final.push(event);
    else if (gate.kind === "tasks" && !waiting.isOpen(gate)) waiting.hold(event, gate);
    else await push(event);
  };

  try {
    for (let items = await inbox.take(); items.length > 0; items = await inbox.take()) {
      const gated = items.findIndex(needsFlush);
      for (const item of gated < 0 ? items : items.slice(0, gated)) await place(item);
      if (gated < 0) continue;
      // One flush for all that has come meanwhile.
      await nextTurn();
      const durable = [...items.slice(gated), ...inbox.takeReady()];
      await settled(flushed);
      for (const event of waiting.release(durable)) await push(event);
      for (const item of durable) await place(item);
    }
    await settled(flushed);
    for (const event of waiting.releaseAll()) await push(event);
  } finally {
    inbox.stop();
  }
  if (inbox.failure() !== undefined) throw inbox.failure()?.error;
  return final;
}

function needsFlush(item: Outgoing): boolean {
  return item.kind === "task_done" || item.gate.kind === "step";
}

/**
 * LangGraph chains puts: one that waits behind another is handed to the saver only when that one is done, a turn later.
 * So what is on its way after the first flush is flushed once more.
 */
async function settled(flushed: () => Promise<void>): Promise<void> {
  await flushed();
  await nextTurn();
  await flushed();
}

type TaskGate = Extract<Gate, { kind: "tasks" }>;

/** Events that wait for the tasks they came from, in the order they came. */
function createWaitingRoom() {
  const done = new Set<string>();
  const answered = new Set<string>();
  let held: Readonly<{ event: StreamEvent; gate: TaskGate }>[] = [];

  const isOpen = ({ tasks, toolCallId }: TaskGate): boolean =>
    (toolCallId !== undefined && answered.has(toolCallId)) || (tasks.length > 0 && tasks.every((id) => done.has(id)));

  return {
    isOpen,
    hold: (event: StreamEvent, gate: TaskGate) => void held.push({ event, gate }),
    /** Notes the tasks that are done and lets out what waited for them: it came before their results. */
    release(items: readonly Outgoing[]): StreamEvent[] {
      for (const item of items) {
        if (item.kind !== "task_done") continue;
        done.add(item.taskId);
        for (const id of item.toolCallIds) answered.add(id);
      }
      const free = held.filter(({ gate }) => isOpen(gate));
      held = held.filter(({ gate }) => !isOpen(gate));
      return free.map(({ event }) => event);
    },
    releaseAll: () => held.splice(0).map(({ event }) => event),
  };
}
