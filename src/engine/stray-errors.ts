// What graphs throw where nobody catches it. A rejection that nobody awaited is logged with the run it came from and ends
// nothing: the other runs of the process have no part in it. An exception that nobody caught may have left anything half
// done, so it ends the process, as a call of process.exit does; the runs go on elsewhere, from their last checkpoints.
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import type { Log } from "../core/deps.js";
import { stackFrames } from "../observe/frames.js";

/** Watches this process until the returned function is called. */
export function watchStrayErrors(log: Log): () => void {
  const about = (error: unknown) => ({
    run_id: runHere(),
    error: error instanceof Error ? error.name : typeof error,
    frames: stackFrames(error),
  });
  const onRejection = (reason: unknown): void => {
    log.error(about(reason), "a promise nobody waited for failed; is one not awaited in a graph?");
  };
  const onException = (error: unknown): void => {
    dispose();
    log.error(about(error), "an error was thrown where nobody catches it; the process ends");
    process.exit(1);
  };
  const onExit = (code: number): void => {
    log.error({ run_id: runHere(), exit_code: code }, "process.exit was called; runs of this process go on elsewhere");
  };
  const dispose = (): void => {
    process.off("unhandledRejection", onRejection);
    process.off("uncaughtException", onException);
    process.off("exit", onExit);
  };
  process.on("unhandledRejection", onRejection);
  process.on("uncaughtException", onException);
  process.on("exit", onExit);
  return dispose;
}

/** The run whose graph we are in, if any: LangGraph hands its config on to everything that a node starts. */
function runHere(): string | undefined {
  const config = AsyncLocalStorageProviderSingleton.getRunnableConfig() as
    | Readonly<{ configurable?: Readonly<Record<string, unknown>> }>
    | undefined;
  const runId = config?.configurable?.run_id;
  return typeof runId === "string" ? runId : undefined;
}
