// The log format: one JSON object a line on stderr. Fields are ids, codes and numbers; content never gets here.
import { pino } from "pino";
import type { Log } from "../core/deps.js";

/** A logger for one process; `level` as pino names them ("debug", "info", "warn", "error", "silent"). */
export function createLog(level: string, base: Readonly<Record<string, string | number>> = {}): Log {
  return pino({ level, base: { ...base } }, pino.destination({ dest: 2, sync: true }));
}
