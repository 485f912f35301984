// So many at a time: who finds no place free may wait for one.

export type Places = Readonly<{
  /** False when none is free. */
  tryTake(): boolean;
  /** Waits for a place behind those that wait already. False when the signal is aborted before there is one. */
  take(signal: AbortSignal): Promise<boolean>;
  giveBack(): void;
}>;

export function createPlaces(count: number): Places {
  let free = count;
  const waiting = new Set<() => void>();
  const tryTake = (): boolean => {
    if (free === 0) return false;
    free -= 1;
    return true;
  };
  return {
    tryTake,
    take(signal) {
      if (signal.aborted) return Promise.resolve(false);
      if (tryTake()) return Promise.resolve(true);
      return new Promise((resolve) => {
        const leave = (): void => {
          waiting.delete(have);
          resolve(false);
        };
        const have = (): void => {
          signal.removeEventListener("abort", leave);
          resolve(true);
        };
        waiting.add(have);
        signal.addEventListener("abort", leave, { once: true });
      });
    },
    giveBack() {
      const [next] = waiting;
      if (next === undefined) {
        free += 1;
        return;
      }
      waiting.delete(next);
      next();
    },
  };
}
