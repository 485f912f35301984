// Filters of the store: what an item's fields are compared with, as PostgresStore understands it.
import { EngineError } from "../core/errors.js";
import { isObject } from "../core/json-parts.js";
import type { Condition } from "../items/vectors.js";

type Filter = Readonly<Record<string, unknown>>;

const NUMBER_OPS = new Set(["$gt", "$gte", "$lt", "$lte"]);
const LIST_OPS = new Set(["$in", "$nin"]);
const VALUE_OPS = new Set(["$eq", "$ne"]);

/** PostgresStore leaves out operators that it doesn't know, and compares what is no plain value by what JavaScript makes of it as text. */
export function checkFilter(filter: Filter): void {
  for (const [field, wanted] of Object.entries(filter)) {
    const isOperators = isObject(wanted) && Object.keys(wanted).some((name) => name.startsWith("$"));
    const problem = isOperators ? operatorsProblem(wanted) : isPlain(wanted) || isObject(wanted) ? null : NEEDS_PLAIN;
    if (problem !== null) throw new EngineError("bad_request", `filter.${field}: ${problem}`);
  }
}

const NEEDS_PLAIN = "must be text, a number, true, false, an object that is contained, or operators like $gte";

function operatorsProblem(operators: Readonly<Record<string, unknown>>): string | null {
  for (const [name, value] of Object.entries(operators)) {
    if (NUMBER_OPS.has(name)) {
      if (typeof value !== "number") return `${name} must have a number`;
    } else if (LIST_OPS.has(name)) {
      if (!Array.isArray(value) || value.length === 0 || !value.every(isPlain))
        return `${name} must have a list of plain values`;
    } else if (VALUE_OPS.has(name)) {
      if (!isPlain(value)) return `${name} must have a plain value`;
    } else if (name !== "$exists" || typeof value !== "boolean") {
      return `${name} must be one of $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin and $exists (true or false)`;
    }
  }
  return null;
}

function isPlain(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

const NOT_A_NUMBER = new Set<unknown>(["22P02", "22003"]);
const TOO_MANY_WORDS = "54000";

/** A number was looked for where an item has something else, or words in what has too many of them. */
export function asUnmeant(error: unknown): never {
  const { code } = error as { code?: unknown };
  if (code === TOO_MANY_WORDS) {
    throw new EngineError(
      "bad_request",
      "query: there is an item with too many words to look in; take a longer prefix",
      {
        cause: error,
      },
    );
  }
  if (!NOT_A_NUMBER.has(code)) throw error;
  throw new EngineError("bad_request", "filter: compares numbers, and an item has something else there", {
    cause: error,
  });
}

/** The same, comparison by comparison; for a filter that was checked. */
export function conditionsOf(filter: Filter): Condition[] {
  return Object.entries(filter).flatMap(([field, wanted]): Condition[] => {
    if (!isObject(wanted)) return [{ field, op: "$eq", operand: wanted }];
    const operators = Object.entries(wanted).filter(([name]) => name.startsWith("$"));
    if (operators.length === 0) return [{ field, op: "contains", operand: wanted }];
    return operators.map(([op, operand]) => ({ field, op, operand }));
  });
}
