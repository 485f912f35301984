// The public API: everything a graph author or an embedding application may import, and nothing else.
export { createPerdure, type LoopName, type Perdure, type PerdureOptions } from "./compose.js";
export { EngineError, type ErrorCode } from "./core/errors.js";
export type { GraphConfig, RunnableGraph } from "./engine/graphs.js";
export { sleepFor, sleepUntil } from "./engine/sleep.js";
