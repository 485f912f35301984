// Pieces of the wire's request bodies that several routes share.
import { z } from "zod";
import { isUuid } from "../../core/ids.js";
import { TTL_STRATEGIES } from "../../core/thread-ttl.js";

/** Strings that Postgres can't hold as text: NUL and lone surrogates. */
const UNSTORABLE = /[\0\p{Surrogate}]/u;
const MAX_DEPTH = 64;
/** Metadata labels things for people and filters; each run and each of its checkpoints carries a copy. */
const MAX_JSON_CHARACTERS = 65_536;

export const uuid = z
  .string()
  .refine(isUuid, "must be a UUID")
  .transform((text) => text.toLowerCase());

/** Text that goes into a column as it is. */
export const text = z.string().refine((value) => !UNSTORABLE.test(value), "must not contain NUL or a lone surrogate");

/** A JSON object as it is: zod's own records leave out a key named __proto__. */
export const object = z
  .unknown()
  .refine((value) => typeof value === "object" && value !== null && !Array.isArray(value), "must be an object")
  .transform((value) => value as Readonly<Record<string, unknown>>);

/** A JSON object that goes into a column as jsonb: no NUL, no lone surrogate, not deeper than Postgres and people can follow. */
export function storable(maxCharacters: number) {
  return object.superRefine((value, context) => {
    const found = unstorable(value, []);
    if (found !== undefined) context.addIssue({ code: "custom", path: found.path, message: found.message });
    else if (JSON.stringify(value).length > maxCharacters)
      context.addIssue({ code: "custom", message: `must not be longer than ${maxCharacters} characters as JSON` });
  });
}

/** One for filters and labels. */
export const jsonObject = storable(MAX_JSON_CHARACTERS);

type Found = Readonly<{ path: (string | number)[]; message: string }>;

function unstorable(value: unknown, path: (string | number)[]): Found | undefined {
  if (typeof value === "string") {
    return UNSTORABLE.test(value) ? { path, message: "must not contain NUL or a lone surrogate" } : undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (path.length >= MAX_DEPTH) return { path, message: `must not be nested deeper than ${MAX_DEPTH} levels` };
  for (const [key, item] of Object.entries(value)) {
    const here = [...path, Array.isArray(value) ? Number(key) : key];
    if (UNSTORABLE.test(key)) return { path: here, message: "keys must not contain NUL or a lone surrogate" };
    // Metadata of several sources is merged by key.
    if (key === "__proto__") return { path: here, message: "must have another name" };
    const found = unstorable(item, here);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Tracing that a request asks for: refused by name, since it is the workers' environment that says where runs are traced to. */
export const noTracer = z
  .unknown()
  .refine(
    (value) => value === undefined || value === null,
    "is not supported: where runs are traced to is said by the workers' environment (LANGSMITH_PROJECT)",
  )
  .optional();

/** null as "not given": what clients in other languages send for what they leave out. */
export function absent<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined);
}

export const sortOrder = z.enum(["asc", "desc"]);
export const limit = z.number().int().min(1).max(1000);
export const offset = z.number().int().min(0);

/** A checkpoint as clients send it back: often without thread_id, with nulls for what it lacks. */
export const checkpoint = z.object({
  thread_id: absent(uuid),
  checkpoint_ns: absent(text),
  checkpoint_id: absent(uuid),
  checkpoint_map: absent(object),
});
export type CheckpointBody = z.output<typeof checkpoint>;

/** Postgres' and JavaScript's dates end later than ten years from now. */
const minutes = z.number().positive().max(5_256_000);

/** Minutes, or those and what becomes of the thread when they are over. */
export const ttl = z.union(
  [
    minutes.transform((given) => ({ minutes: given, strategy: "delete" as const })),
    z
      .object({ ttl: minutes, strategy: absent(z.enum(TTL_STRATEGIES)) })
      .transform((given) => ({ minutes: given.ttl, strategy: given.strategy ?? ("delete" as const) })),
  ],
  { error: `must be minutes, or {ttl: minutes, strategy: ${TTL_STRATEGIES.join(" or ")}}, ten years at most` },
);
