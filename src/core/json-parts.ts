// Parts of JSON data: taken out by a path, and compared as Postgres' `@>` does.

/** `values.messages[-1].content` as its steps; a negative number counts from the end. Undefined when it is no path. */
export function parsePath(path: string): (string | number)[] | undefined {
  if (!/^[^.[\]]+(?:\.[^.[\]]+|\[-?\d{1,9}\])*$/.test(path)) return undefined;
  return [...path.matchAll(/\[(-?\d+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? String(name) : Number(index),
  );
}

/** What is there; null when nothing is. */
export function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  let here: unknown = value;
  for (const step of path) {
    if (typeof step === "number") here = Array.isArray(here) ? here.at(step) : undefined;
    else here = isObject(here) && Object.hasOwn(here, step) ? here[step] : undefined;
    if (here === undefined) return null;
  }
  return here;
}

/** Whether `part` is in `whole`: fields in fields, items in items whatever their place, all else the same. */
export function contains(whole: unknown, part: unknown): boolean {
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((item) => whole.some((other) => contains(other, item)));
  }
  if (!isObject(part)) return whole === part;
  return (
    isObject(whole) &&
    Object.entries(part).every(([key, item]) => Object.hasOwn(whole, key) && contains(whole[key], item))
  );
}

/** A JSON object: neither a list nor null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
