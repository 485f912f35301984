// The calls of one task of a graph, so that none is cut off because another asks: a task that asks is over for its attempt.

export type TaskCalls = {
  running: number;
  /** Settles when the question that this task is going to ask may be asked; the others wait for the next attempt. */
  asking: Promise<void> | undefined;
  idle: (() => void)[];
};

export function taskCalls(tasks: Map<string, TaskCalls>, task: string): TaskCalls {
  const known = tasks.get(task) ?? { running: 0, asking: undefined, idle: [] };
  tasks.set(task, known);
  return known;
}

export async function whileRunning<T>(calls: TaskCalls, work: () => Promise<T>): Promise<T> {
  calls.running += 1;
  try {
    return await work();
  } finally {
    leave(calls);
  }
}

/** Waits for the other calls, as one that does nothing itself meanwhile. */
export async function othersDone(calls: TaskCalls): Promise<void> {
  leave(calls);
  if (calls.running > 0) await new Promise<void>((resolve) => calls.idle.push(resolve));
  calls.running += 1;
}

function leave(calls: TaskCalls): void {
  calls.running -= 1;
  if (calls.running === 0) for (const wake of calls.idle.splice(0)) wake();
}
