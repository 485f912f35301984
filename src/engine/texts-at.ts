// The texts at a place in a value, as LangGraph's stores write places: "$" (all of it), "a.b", "a[0]", "a[-1]", "a[*].b", "a.*", "{a,b.c}".
// LangGraph's own reader isn't exported; the one that is knows neither "$" nor what follows "[*]".
import { isObject } from "../core/json-parts.js";

const STEP = /\[[^\]]*\]|\{[^}]*\}|[^.[{]+/g;

/** What is no text there is written as JSON; where there is nothing, there is none. */
export function textsAt(value: unknown, path: string): string[] {
  const [first, ...rest] = path.match(STEP) ?? [];
  const steps = first === undefined || first === "$" ? rest : [first, ...rest];
  let found = [value];
  for (const step of steps) found = found.flatMap((at) => next(at, step));
  return found.flatMap(textOf);
}

function next(at: unknown, step: string): unknown[] {
  if (step.startsWith("{")) {
    const fields = step.slice(1, -1).split(",");
    return fields.flatMap((field) =>
      (field.match(STEP) ?? []).reduce((found, name) => found.flatMap((of) => next(of, name.trim())), [at]),
    );
  }
  if (step.startsWith("[")) return Array.isArray(at) ? elements(at, step.slice(1, -1)) : [];
  if (step === "*") return typeof at === "object" && at !== null ? Object.values(at) : [];
  return isObject(at) && Object.hasOwn(at, step) ? [at[step]] : [];
}

function elements(list: readonly unknown[], index: string): unknown[] {
  if (index === "*") return [...list];
  const one = /^-?\d+$/.test(index) ? list.at(Number(index)) : undefined;
  return one === undefined ? [] : [one];
}

function textOf(value: unknown): string[] {
  if (value === null || value === undefined) return [];
  return [typeof value === "string" ? value : JSON.stringify(value)];
}
