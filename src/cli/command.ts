// What commands are built of: the options that all of them have, and how what stands behind an option is read.
import type { Command } from "commander";
import { choiceArgument, durationArgument, wholeArgument } from "./arguments.js";

/** Where things are: every command has these. */
export type Place = Readonly<{
  /** Null: langgraph.json in this folder, if there is one. */
  configPath: string | null;
  dataDir: string;
  json: boolean;
}>;

export type Flag = string | boolean | undefined;
export type Flags = Readonly<Record<string, Flag>>;
type Range = Readonly<{ min: number; max: number }>;

/** How many rows a list may have. */
export const ROWS: Range = { min: 1, max: 10_000 };

export function command(parent: Command, name: string, description: string): Command {
  return parent
    .command(name)
    .description(description)
    .option("--config <file>", "the langgraph.json to use (default: ./langgraph.json)")
    .option("--data-dir <dir>", "where the development server keeps its data", ".perdure");
}

/** The same, for commands whose answer programs read, too. */
export function answering(parent: Command, name: string, description: string): Command {
  return command(parent, name, description).option("--json", "print JSON for programs");
}

export function place(flags: Flags): Place {
  return { configPath: text(flags.config), dataDir: text(flags.dataDir) ?? ".perdure", json: flags.json === true };
}

export function text(flag: Flag): string | null {
  return typeof flag === "string" ? flag : null;
}

/** Names separated by commas. */
export function list(flag: Flag): string[] | null {
  return (
    text(flag)
      ?.split(",")
      .map((name) => name.trim()) ?? null
  );
}

export function whole(flag: Flag, name: string, range: Range): number | null {
  const given = text(flag);
  return given === null ? null : wholeArgument(given, name, range);
}

export function choice<T extends string>(flag: Flag, name: string, choices: readonly T[]): T | null {
  const given = text(flag);
  return given === null ? null : choiceArgument(given, name, choices);
}

/** Milliseconds. */
export function duration(flag: Flag, name: string): number | null {
  const given = text(flag);
  return given === null ? null : durationArgument(given, name);
}
