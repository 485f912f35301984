// How commands speak: tables for people, JSON for programs, an error in one clear sentence.
import { EngineError, type ErrorCode } from "../core/errors.js";

export type Output = Readonly<{
  /** A line on stdout. */
  line(text: string): void;
  /** A line on stderr: what happens, not what was asked for. */
  note(text: string): void;
}>;

export const terminal: Output = {
  line: (text) => void process.stdout.write(`${text}\n`),
  note: (text) => void process.stderr.write(`${text}\n`),
};

export type Cell = string | number | boolean | Date | null | undefined;

/** Rows as aligned columns under their names, or a sentence when there are none. */
export function table(rows: readonly Readonly<Record<string, Cell>>[], none: string): string {
  const [first] = rows;
  if (first === undefined) return none;
  const names = Object.keys(first);
  const cells = [
    names.map((name) => name.toUpperCase()),
    ...rows.map((row) => names.map((name) => cellText(row[name]))),
  ];
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const pad = (text: string, column: number) => (column === names.length - 1 ? text : text.padEnd(widths[column] ?? 0));
  return cells.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}

/** One thing as `name  value` lines; what it doesn't have is left out. */
export function details(fields: Readonly<Record<string, Cell>>): string {
  const present = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  const width = Math.max(0, ...present.map(([name]) => name.length));
  return present.map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}`).join("\n");
}

function cellText(value: Cell): string {
  if (value === null || value === undefined) return "-";
  if (value instanceof Date)
    return value
      .toISOString()
      .replace("T", " ")
      .replace(/\.\d+Z$/, "Z");
  // Other people's text must not move the cursor or colour the screen.
  return String(value).replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}

const USED_WRONGLY: ReadonlySet<ErrorCode> = new Set([
  "bad_request",
  "config_invalid",
  "graph_invalid",
  "schema_newer",
]);

/** 0 worked, 1 failed, 2 used or configured wrongly. */
export function exitCodeOf(error: unknown): number {
  // Of a process that failed for us.
  const { exitCode } = error as { exitCode?: unknown };
  if (typeof exitCode === "number" && exitCode > 0) return exitCode;
  if (!(error instanceof EngineError)) return 1;
  return USED_WRONGLY.has(error.code) ? 2 : 1;
}

/** What went wrong, for a person. The stack only where it was asked for. */
export function errorText(error: unknown, withStack: boolean): string {
  if (!(error instanceof Error)) return `perdure: ${String(error)}`;
  const code = (error as NodeJS.ErrnoException).code;
  const hint = error instanceof EngineError || code === undefined ? "" : ` (${code})`;
  const stack = withStack ? `\n${error.stack ?? ""}${causes(error)}` : "";
  return `perdure: ${error.message || error.name}${hint}${stack}`;
}

function causes(error: Error): string {
  return error.cause instanceof Error ? `\ncaused by ${error.cause.stack ?? ""}${causes(error.cause)}` : "";
}
