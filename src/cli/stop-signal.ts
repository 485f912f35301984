// When a process must stop: a signal, or the end of the supervisor that started it.
export type StopSignal = Readonly<{
  /** Aborts when the process is told to stop. */
  signal: AbortSignal;
  /** Resolves then. */
  stopped: Promise<void>;
  dispose(): void;
}>;

/** Listens until disposed of. Told once more, it calls `onAgain`: who asks twice does not want to wait. */
export function stopSignal(onAgain: () => void): StopSignal {
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) onAgain();
    else stop.abort();
  };
  const onDisconnect = () => stop.abort();
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) process.on(name, onSignal);
  process.on("disconnect", onDisconnect);
  const stopped = new Promise<void>((resolve) => {
    stop.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  return {
    signal: stop.signal,
    stopped,
    dispose() {
      for (const name of names) process.off(name, onSignal);
      process.off("disconnect", onDisconnect);
    },
  };
}
