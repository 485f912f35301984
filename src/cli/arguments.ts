// What stands on the command line, parsed once; what can't be meant is refused by name.
import { DURATION_HINT, parseDuration } from "../core/duration.js";
import { EngineError } from "../core/errors.js";
import { isUuid } from "../core/ids.js";
import { nearest } from "../core/nearest.js";

/** A run's, thread's or approval's id. */
export function idArgument<Id extends string>(text: string, what: string): Id {
  if (isUuid(text)) return text.toLowerCase() as Id;
  throw new EngineError("bad_request", `${JSON.stringify(text)} is not the id of ${what}; ids are UUIDs`);
}

export function wholeArgument(text: string, name: string, range: Readonly<{ min: number; max: number }>): number {
  const value = Number(text);
  if (/^\d{1,9}$/.test(text) && value >= range.min && value <= range.max) return value;
  throw new EngineError("bad_request", `${name} must be a whole number from ${range.min} to ${range.max}`);
}

/** An amount of money: 0 or more. */
export function amountArgument(text: string, name: string): number {
  const value = Number(text);
  if (/^\d{1,12}(\.\d{1,9})?$/.test(text)) return value;
  throw new EngineError("bad_request", `${name} must be an amount like 0.5 or 20`);
}

/** Milliseconds. */
export function durationArgument(text: string, name: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new EngineError("bad_request", `${name} ${DURATION_HINT}`);
}

export function choiceArgument<T extends string>(text: string, name: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  const guess = nearest(text, choices);
  const hint = guess === null ? "" : `; did you mean ${guess}?`;
  throw new EngineError("bad_request", `${name} must be one of ${choices.join(", ")}${hint}`);
}

export function jsonArgument(text: string, name: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new EngineError("bad_request", `${name} must be JSON, like true, "text" or {"amount": 5}`);
  }
}
