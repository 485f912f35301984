// The refusal of a value that can't be kept exactly: it names where in the state the value stands and what it is.
import { EngineError } from "../../core/errors.js";

export type PathStep = string | number;

const MAX_PATH = 300;
const PLAIN_KEY = /^[A-Za-z_]\w*$/;

/** `value_unsupported` for the value at `path`; the first step of a path is the channel. */
export function unsupported(path: readonly PathStep[], what: string): EngineError {
  const where = pathText(path);
  return new EngineError(
    "value_unsupported",
    `The state value at ${where} is ${what}, which can't be kept exactly. ` +
      "Put plain data into the state: JSON values, Date, Map, Set, BigInt, bytes, errors, messages, documents.",
    { details: { path: where, type: what } },
  );
}

/** A word for a value's type, for people. */
export function describeType(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return "a symbol";
  const { constructor } = value as { constructor?: unknown };
  const name = typeof constructor === "function" ? constructor.name : "";
  return name === "" ? "an object of an unknown class" : `an instance of class ${name}`;
}

export function pathText(path: readonly PathStep[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (!PLAIN_KEY.test(step) && text !== "") text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text.length > MAX_PATH ? `${text.slice(0, MAX_PATH)}…` : text;
}
