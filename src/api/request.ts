// Parsing at the door: bodies, path ids and query strings become typed values, or a 422 that names the place.
// Fields nobody knows are let through and named in a response header, since newer clients keep adding some.
import type { Context } from "hono";
import { z } from "zod";
import { EngineError } from "../core/errors.js";
import { isUuid } from "../core/ids.js";
import { isObject } from "../core/json-parts.js";
import { pathText, readJson } from "./body.js";
import type { ApiEnv } from "./env.js";

export const IGNORED_FIELDS_HEADER = "X-Perdure-Ignored-Fields";

/** The request's JSON body as the schema has it; an empty body is `{}`. */
export async function readBody<S extends z.ZodType>(c: Context<ApiEnv>, schema: S): Promise<z.output<S>> {
  const raw = await readJson(c);
  c.set("body", raw);
  const parsed = schema.safeParse(raw);
  if (!parsed.success) throw invalid(parsed.error.issues);
  nameIgnored(c, unknownFields(schema, raw));
  return parsed.data;
}

/** The same for a list of items, of which each may be named in camel case, as the stock client's batches are. */
export async function readItems<S extends z.ZodType>(
  c: Context<ApiEnv>,
  schema: S,
  most: number,
): Promise<z.output<S>[]> {
  const items = await readBody(c, z.array(z.record(z.string(), z.unknown()), "must be a list").min(1).max(most));
  const renamed = items.map(inSnakeCase);
  const parsed = z.array(schema).safeParse(renamed);
  if (!parsed.success) throw invalid(parsed.error.issues);
  nameIgnored(
    c,
    renamed.flatMap((item, at) => unknownFields(schema, item, `[${at}].`)),
  );
  return parsed.data;
}

/** Says in the answer what of a request has no effect, unless the answer has begun. */
export function nameIgnored(c: Context<ApiEnv>, paths: readonly string[]): void {
  if (c.finalized) return;
  for (const path of paths) c.header(IGNORED_FIELDS_HEADER, encodeURIComponent(path), { append: true });
}

/** Only the names of its fields: what is in them is content. */
function inSnakeCase(item: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const named = Object.entries(item).map(([key, value]) => [
    key.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
    value,
  ]);
  return {
    ...Object.fromEntries(named),
    ...Object.fromEntries(Object.entries(item).filter(([key]) => !/[A-Z]/.test(key))),
  };
}

/** What came in another way than as a body. */
export function readAs<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw invalid(parsed.error.issues);
  return parsed.data;
}

/** A path parameter that must be a UUID, in lower case: `pathId<ThreadId>(c, "thread_id")`. */
export function pathId<Id extends string>(c: Context<ApiEnv>, name: string): Id {
  const value = c.req.param(name);
  if (value === undefined || !isUuid(value)) throw new EngineError("bad_request", `${name}: must be a UUID`);
  return value.toLowerCase() as Id;
}

/** The query string as the schema has it. Each value arrives as a list; `flag`, `list` and `one` below read them. */
export function readQuery<S extends z.ZodType>(c: Context<ApiEnv>, schema: S): z.output<S> {
  const parsed = schema.safeParse(c.req.queries());
  if (!parsed.success) throw invalid(parsed.error.issues);
  return parsed.data;
}

const repeated = z.array(z.string()).optional();

/** What the values of a query's fields are, for the API's description: they all arrive as lists of text. */
const forms = new WeakMap<z.ZodType, Readonly<Record<string, unknown>>>();

function form<S extends z.ZodType>(schema: S, is: Readonly<Record<string, unknown>>): S {
  forms.set(schema, is);
  return schema;
}

/** Undefined for what isn't one of the kinds below. */
export function formOf(schema: z.ZodType): Readonly<Record<string, unknown>> | undefined {
  return forms.get(schema);
}

/** A boolean in a query: `true`, `1` and `yes`, in any case, are true. */
export const flag = form(
  repeated.transform((values, context) => {
    const value = values?.at(-1)?.toLowerCase();
    if (value === undefined || ["false", "0", "no", ""].includes(value)) return false;
    if (["true", "1", "yes"].includes(value)) return true;
    context.addIssue({ code: "custom", message: "must be true or false" });
    return z.NEVER;
  }),
  { type: "boolean" },
);

/** A list in a query, in each form that stock clients send: repeated keys, one JSON array, commas. */
export const list = form(
  repeated.transform((values, context): string[] | undefined => {
    if (values === undefined) return undefined;
    const only = values[0];
    if (values.length > 1 || only === undefined) return values;
    if (only === "") return undefined;
    if (!only.startsWith("[")) return only.split(",").map((part) => part.trim());
    try {
      const parsed = z.array(z.string()).safeParse(JSON.parse(only));
      if (parsed.success) return parsed.data;
    } catch {
      // Said below, with the shape that was expected.
    }
    context.addIssue({ code: "custom", message: "must be a list: repeated keys, a JSON array of strings, or commas" });
    return z.NEVER;
  }),
  { type: "array", items: { type: "string" } },
);

/** A list in a query that only comes as repeated keys, since each value may be empty or hold commas. */
export const texts = form(z.array(z.string()).optional(), { type: "array", items: { type: "string" } });

/** A single value in a query; the last one counts. */
export const one = form(
  repeated.transform((values) => values?.at(-1)),
  { type: "string" },
);

/** An object in a query, as JSON text. */
export const fields = form(
  one.transform((text, context): unknown => {
    if (text === undefined || text === "") return undefined;
    try {
      const parsed: unknown = JSON.parse(text);
      if (isObject(parsed)) return parsed;
    } catch {
      // Said below, with the shape that was expected.
    }
    context.addIssue({ code: "custom", message: 'must be an object as JSON, like {"key":"value"}' });
    return z.NEVER;
  }),
  { type: "object" },
);

/** A whole number in a query within bounds. */
export function integer(bounds: Readonly<{ min: number; max: number; fallback: number }>) {
  const schema = one.transform((text, context) => {
    if (text === undefined) return bounds.fallback;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= bounds.min && value <= bounds.max) return value;
    context.addIssue({ code: "custom", message: `must be a whole number from ${bounds.min} to ${bounds.max}` });
    return z.NEVER;
  });
  return form(schema, { type: "integer", minimum: bounds.min, maximum: bounds.max, default: bounds.fallback });
}

function invalid(issues: readonly z.core.$ZodIssue[]): EngineError {
  const places = issues.map((issue) => ({ path: pathText(issue.path), message: issue.message }));
  const text = places
    .map((place) => (place.path === "" ? place.message : `${place.path}: ${place.message}`))
    .join("; ");
  return new EngineError("bad_request", text, { details: { issues: places } });
}

/** Paths of fields that the schema's objects don't have. */
function unknownFields(schema: z.ZodType, value: unknown, prefix = ""): string[] {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodObject) || !isObject(value)) return [];
  const shape = inner.shape as Record<string, z.ZodType>;
  return Object.entries(value).flatMap(([key, item]) => {
    const field = Object.hasOwn(shape, key) ? shape[key] : undefined;
    if (field !== undefined) return unknownFields(field, item, `${prefix}${key}.`);
    return inner.def.catchall === undefined || inner.def.catchall instanceof z.ZodNever ? [`${prefix}${key}`] : [];
  });
}

function unwrap(schema: z.ZodType): z.ZodType {
  let inner: z.ZodType = schema;
  for (;;) {
    if (inner instanceof z.ZodOptional || inner instanceof z.ZodNullable || inner instanceof z.ZodDefault) {
      inner = inner.unwrap() as z.ZodType;
    } else if (inner instanceof z.ZodPipe) {
      inner = inner.in as z.ZodType;
    } else {
      return inner;
    }
  }
}
