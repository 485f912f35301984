// The public API: everything a graph author or an embedding application may import, and nothing else.
import type { Perdure, PerdureOptions } from "./perdure.js";

export type { LoopName } from "./compose-loops.js";
export { EngineError, type ErrorCode } from "./core/errors.js";
export { approve, type Approve, type Decision } from "./engine/approve.js";
export type { GraphConfig, GraphRuntime, RunnableGraph } from "./engine/graphs.js";
export { sleepFor, sleepUntil } from "./engine/sleep.js";
export type { Perdure, PerdureOptions } from "./perdure.js";

/**
 * An engine inside your own process: the API as a fetch handler, and the loops.
 *
 * @example
 * const perdure = createPerdure({ databaseUrl, bodies: "s3://bucket/agents", graphs: { support } });
 * await perdure.start();
 * app.mount("/agents", perdure.fetch); // Hono; Express: app.use("/agents", perdure.listener)
 */
export function createPerdure(options: PerdureOptions): Perdure {
  // Loaded when it is used: graphs import this package too, and need none of the engine for it.
  let made: Promise<Perdure> | undefined;
  const engine = () => (made ??= import("./perdure.js").then(({ composePerdure }) => composePerdure(options)));
  return {
    fetch: async (request) => (await engine()).fetch(request),
    listener: (request, response) =>
      void engine().then(
        ({ listener }) => listener(request, response),
        (error: Error) => response.destroy(error),
      ),
    upgrade: (request, socket, head) =>
      void engine().then(
        ({ upgrade }) => upgrade(request, socket, head),
        (error: Error) => socket.destroy(error),
      ),
    start: async () => (await engine()).start(),
    stop: async () => (await made)?.stop(),
  };
}
