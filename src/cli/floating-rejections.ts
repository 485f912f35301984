// A promise that a graph made and left alone, and that failed, is that graph's mistake. By default it would end the process
// and with it every other run in it; an exception that nobody caught still does, since nobody knows what it left undone.
import type { Log } from "../core/deps.js";
import { stackFrames } from "../observe/frames.js";

/** Logs such failures, without their messages, until the returned function is called. */
export function surviveFloatingRejections(log: Log): () => void {
  const onRejection = (reason: unknown): void => {
    const error = reason instanceof Error ? reason.name : typeof reason;
    log.error(
      { error, frames: stackFrames(reason) },
      "a promise nobody waited for failed; is one not awaited in a graph?",
    );
  };
  process.on("unhandledRejection", onRejection);
  return () => process.off("unhandledRejection", onRejection);
}
