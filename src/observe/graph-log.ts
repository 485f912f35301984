// The logger that graphs ask for with `getLogger` of `@langchain/langgraph-sdk/logging`: what their authors write goes where our own log
// goes, as JSON lines, and says whose it is.
import { pino } from "pino";

/** Where LangGraph's clients look for it. */
const PLACE = Symbol.for("langgraph.api.sdk-logger");

/** Their levels, by ours. */
const LEVELS = {
  error: ["error"],
  warn: ["warn"],
  info: ["info", "help", "data", "prompt", "input"],
  debug: ["debug", "http", "verbose", "silly"],
} as const;

/** Puts it in its place, unless something else has put its own there. */
export function provideGraphLogger(): void {
  const places = globalThis as Record<symbol, unknown>;
  if (PLACE in places) return;
  const log = pino({ level: "info", base: { source: "graph" } }, pino.destination({ dest: 2, sync: true }));
  const logger: Record<string, unknown> = {};
  for (const [level, names] of Object.entries(LEVELS)) {
    for (const name of names) {
      logger[name] = (message: unknown, ...meta: unknown[]) => {
        const text = typeof message === "string" ? message : undefined;
        const fields = { ...(text === undefined && { data: message }), ...(meta.length > 0 && { meta }) };
        log[level as keyof typeof LEVELS](fields, text ?? "");
        return logger;
      };
    }
  }
  places[PLACE] = logger;
}
