// What only an adapter can judge of a request: each part that it can't use is named by its place.
import type { z } from "zod";
import { EngineError } from "../core/errors.js";

/** Throws `bad_request` with the paths, below `at`, that can't be used. */
export function parsed<T>(schema: z.ZodType<T>, value: unknown, at: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const places = result.error.issues.map(({ path, message }) => ({ path: [at, ...path].join("."), message }));
  const text = places.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new EngineError("bad_request", text, { details: { issues: places } });
}
