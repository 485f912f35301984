// The calls of one task of a graph, so that none is cut off because another asks: a task that asks is over for its attempt.
import { AsyncLocalStorage } from "node:async_hooks";
import { shared } from "../core/shared.js";

export type TaskCalls = {
  running: number;
  /** Calls that want to ask. One of them does; the others when the task is entered again. */
  askers: Readonly<{ isOpen: boolean }>[];
  idle: (() => void)[];
};

/** The call that this code is part of, and how many it waits for itself. */
const within = shared("task_calls", () => new AsyncLocalStorage<{ readonly calls: TaskCalls; inner: number }>());

export function taskCalls(tasks: Map<string, TaskCalls>, scope: string): TaskCalls {
  const known = tasks.get(scope) ?? { running: 0, askers: [], idle: [] };
  tasks.set(scope, known);
  return known;
}

/** A call that makes others counts as one that waits, until they are done. */
export async function whileRunning<T>(calls: TaskCalls, work: () => Promise<T>): Promise<T> {
  const run = async (): Promise<T> => {
    try {
      return await within.run({ calls, inner: 0 }, work);
    } finally {
      leave(calls);
    }
  };
  calls.running += 1;
  return within.getStore()?.calls === calls ? whileWaiting(run()) : run();
}

/** The call that this code is part of, if any, does nothing itself until `done` is settled. */
export async function whileWaiting<T>(done: Promise<T>): Promise<T> {
  const call = within.getStore();
  if (call === undefined) return done;
  if ((call.inner += 1) === 1) leave(call.calls);
  try {
    return await done;
  } finally {
    if ((call.inner -= 1) === 0) call.calls.running += 1;
  }
}

/** Waits for the other calls, as one that does nothing itself meanwhile. */
export async function othersDone(calls: TaskCalls): Promise<void> {
  leave(calls);
  while (calls.running > 0) {
    await new Promise<void>((resolve) => calls.idle.push(resolve));
    // Whoever waited for the one that was done last goes on first.
    await new Promise((resolve) => setImmediate(resolve));
  }
  calls.running += 1;
}

/** Resolves for the one call that asks, when the others are done: one whose question was open before, else the first. */
export async function turnToAsk(calls: TaskCalls, isOpen: boolean): Promise<void> {
  const mine = { isOpen };
  calls.askers.push(mine);
  await othersDone(calls);
  const first = calls.askers.find((asker) => asker.isOpen) ?? calls.askers[0];
  if (first !== mine) await neverDone(calls);
}

/** A call that goes on only when its task is entered again; the others need not wait for it. */
function neverDone(calls: TaskCalls): Promise<never> {
  leave(calls);
  return new Promise(() => undefined);
}

function leave(calls: TaskCalls): void {
  calls.running -= 1;
  if (calls.running === 0) for (const wake of calls.idle.splice(0)) wake();
}
