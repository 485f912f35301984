// Reads an async iterable ahead, so that its consumer can take at once whatever has come.

/** Items to keep at most; then the source waits. */
const LIMIT = 1_000;

export type ReadAhead<T> = Readonly<{
  /** What has come, at least one item; nothing when the source has ended. */
  take(): Promise<readonly T[]>;
  /** What has come, possibly nothing. */
  takeReady(): readonly T[];
  /** How the source ended, if it ended with an error. */
  failure(): Readonly<{ error: unknown }> | undefined;
  /** Closes the source at its next item. */
  stop(): void;
}>;

/** `items` says what comes of each thing that the source yields. */
export function readAhead<T>(source: AsyncIterable<unknown>, items: (from: unknown) => Iterable<T>): ReadAhead<T> {
  let read: T[] = [];
  let ended = false;
  let stopped = false;
  let failure: Readonly<{ error: unknown }> | undefined;
  let onItem = (): void => {};
  let onRoom = (): void => {};

  const readOn = async (): Promise<void> => {
    try {
      for await (const from of source) {
        for (const item of items(from)) read.push(item);
        if (read.length > 0) onItem();
        if (read.length >= LIMIT && !stopped) await new Promise<void>((resolve) => (onRoom = resolve));
        if (stopped) return;
      }
    } catch (error) {
      failure = { error };
    } finally {
      ended = true;
      onItem();
    }
  };
  void readOn();

  const takeReady = (): readonly T[] => {
    const taken = read;
    read = [];
    onRoom();
    return taken;
  };
  return {
    async take() {
      if (read.length === 0 && !ended) await new Promise<void>((resolve) => (onItem = resolve));
      return takeReady();
    },
    takeReady,
    failure: () => failure,
    stop() {
      stopped = true;
      onRoom();
    },
  };
}
