// Requests made from the API's own description: values that fit a JSON schema, and now and then something that doesn't.
import fc from "fast-check";

type Json = Readonly<Record<string, unknown>>;

/** Anything a client may send where something else was meant. */
const garbage: fc.Arbitrary<unknown> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-1, 0, 1e308, -1e308, Number.MAX_SAFE_INTEGER, 0.1),
  fc.constantFrom(
    "",
    " ",
    "\0",
    "\ud800",
    "__proto__",
    "constructor",
    "%",
    "'; drop table runs; --",
    "🂡",
    "a".repeat(5_000),
  ),
  fc.string({ maxLength: 20 }),
  fc.constantFrom([], {}, [[]], [null], { __proto__: null, a: 1 }, { constructor: 1 }, { a: { b: { c: [] } } }),
);

/** Values for fields that name something: what is there, and what isn't. */
export type Known = Readonly<Record<string, readonly string[]>>;

export function valueOf(schema: Json, known: Known, name = "", depth = 0): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 25, arbitrary: fitting(schema, known, name, depth) }, { weight: 1, arbitrary: garbage });
}

function fitting(schema: Json, known: Known, name: string, depth: number): fc.Arbitrary<unknown> {
  const inner = (part: Json, at = name): fc.Arbitrary<unknown> => valueOf(part, known, at, depth + 1);
  const named = known[name];
  if (named !== undefined && depth < 6) {
    const [first, ...others] = named;
    return fc.oneof({ weight: 4, arbitrary: fc.constant(first) }, { weight: 1, arbitrary: fc.constantFrom(...others) });
  }
  // `false` is the schema of what may not be there.
  if (depth > 8 || typeof schema !== "object") return garbage;
  const choices = (schema.anyOf ?? schema.oneOf) as readonly Json[] | undefined;
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => inner(choice)));
  if ("const" in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]));
  switch (schema.type) {
    case "string":
      return textOf(schema);
    case "integer":
      return fc.integer({ min: atLeast(schema, -5), max: atMost(schema, 2_000) });
    case "number":
      return fc.double({ min: atLeast(schema, -5), max: atMost(schema, 1e6), noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(inner((schema.items as Json | undefined) ?? {}), { maxLength: 3 });
    case "object":
      return objectOf(schema, inner);
    default:
      return garbage;
  }
}

function objectOf(schema: Json, inner: (part: Json, name: string) => fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Readonly<Record<string, Json>>);
  const required = new Set((schema.required ?? []) as readonly string[]);
  const some = Object.fromEntries(
    properties.map(([name, part]) => {
      const value = inner(part, name).map((given) => ({ given }));
      const missing = {
        weight: required.has(name) ? 1 : Math.max(8, 3 * properties.length),
        arbitrary: fc.constant(null),
      };
      return [name, fc.oneof({ weight: required.has(name) ? 40 : 6, arbitrary: value }, missing)];
    }),
  );
  const extra = fc.oneof(
    { weight: 10, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.constant({ unheard_of: 1 }) },
  );
  return fc.tuple(fc.record(some), extra).map(([fields, more]) => {
    const given = Object.entries(fields as Record<string, { given: unknown } | null>).flatMap(([name, value]) =>
      value === null ? [] : [[name, value.given] as const],
    );
    return { ...Object.fromEntries(given), ...more };
  });
}

function textOf(schema: Json): fc.Arbitrary<string> {
  if (schema.format === "uuid") return fc.uuid();
  if (schema.format === "date-time") return fc.constantFrom("2030-01-01T00:00:00Z", "2020-02-30T00:00:00Z", "tomorrow");
  return fc.oneof(
    fc.string({ minLength: Math.min(Number(schema.minLength ?? 0), 20), maxLength: 20 }),
    fc.constantFrom("a", "PT1H", "0 9 * * *", "UTC", "https://example.com/hook", "09:00", "*"),
  );
}

function atLeast(schema: Json, otherwise: number): number {
  return Math.ceil(Number(schema.minimum ?? schema.exclusiveMinimum ?? otherwise));
}

function atMost(schema: Json, otherwise: number): number {
  return Math.max(atLeast(schema, -5), Math.min(Number(schema.maximum ?? schema.exclusiveMaximum ?? otherwise), 1e9));
}
