// Bodies and queries of the store's routes.
import { z } from "zod";
import { flag } from "../request.js";
import { absent, jsonObject, limit, offset, storable, text } from "./parts.js";

/** Of an item's value, as JSON. */
const MAX_VALUE_CHARACTERS = 16 * 1024 * 1024;

const label = text
  .min(1, "must not be empty")
  .refine((value) => !/[.:]/.test(value), "must not contain a period or a colon");
const labels = z.array(label).max(100);
const key = text.min(1);
const minutes = z.number().positive().max(5_256_000);

export const itemPut = z.object({
  namespace: labels.refine(([root]) => root !== "langgraph", 'must not begin with "langgraph"'),
  key,
  value: storable(MAX_VALUE_CHARACTERS),
  /** false: not to be found by what it means. A list: where its texts are, instead of what the store's index says. */
  index: absent(
    z.union([z.literal(false), z.array(text.min(1)).min(1).max(100)], {
      error: "must be false, or a list of 1 to 100 places of texts in the value",
    }),
  ),
  /** In minutes; null: it doesn't expire. Left out, the configuration says. */
  ttl: minutes.nullish(),
});

export const itemDelete = z.object({ namespace: labels, key });

export const itemGet = z.object({
  namespace: z.array(z.string()).optional().transform(labelsOf).pipe(labels),
  key: z
    .array(key)
    .min(1, "must be given")
    .transform((keys) => keys.at(-1) ?? ""),
  refresh_ttl: z.union([z.undefined(), flag]),
});

export const itemSearch = z.object({
  namespace_prefix: absent(labels),
  filter: absent(jsonObject),
  limit: absent(limit),
  offset: absent(offset),
  /** What is meant; words that are looked for, where the store has no index. */
  query: absent(text),
  refresh_ttl: absent(z.boolean()),
});

const pattern = z.array(z.union([z.literal("*"), label])).max(100);
export const namespaceList = z.object({
  prefix: absent(pattern),
  suffix: absent(pattern),
  max_depth: absent(z.int().min(1).max(100)),
  limit: absent(limit),
  offset: absent(offset),
});

/** `a.b`, as stock clients send it, or a label each time. */
function labelsOf(values: readonly string[] = []): string[] {
  return values.flatMap((value) => (value === "" ? [] : value.split(".")));
}
