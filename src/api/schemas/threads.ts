// Request bodies of the thread and state routes.
import { z } from "zod";
import type { ThreadId } from "../../core/ids.js";
import { parsePath } from "../../core/json-parts.js";
import { command } from "./runs.js";
import { absent, checkpoint, jsonObject, limit, object, offset, sortOrder, text, ttl, uuid } from "./parts.js";

const threadId = uuid.transform((id) => id as ThreadId);
const status = z.enum(["idle", "busy", "interrupted", "error"]);

/** What one node is said to have written; content, taken as it is. */
const superstepUpdate = z
  .object({
    values: z.unknown().optional(),
    command: absent(command),
    as_node: absent(text),
  })
  .refine(
    (update) => (update.values ?? null) === null || update.command === undefined,
    "can't have values and a command",
  );
const superstep = z.object({ updates: z.array(superstepUpdate).min(1).max(100) });

export const threadCreate = z.object({
  thread_id: absent(threadId),
  metadata: absent(jsonObject),
  if_exists: absent(z.enum(["raise", "do_nothing"])),
  ttl: absent(ttl),
  supersteps: absent(z.array(superstep).max(1_000)),
});

export const threadPatch = z.object({ metadata: absent(jsonObject), ttl: absent(ttl) });

export const threadPrune = z.object({
  thread_ids: z.array(threadId).max(1000),
  strategy: absent(z.enum(["delete", "keep_latest"])),
});

const THREAD_FIELDS = [
  "thread_id",
  "created_at",
  "updated_at",
  "state_updated_at",
  "metadata",
  "status",
  "config",
  "values",
  "interrupts",
] as const;

const EXTRACTED: ReadonlySet<string> = new Set(THREAD_FIELDS);

const filter = {
  metadata: absent(jsonObject),
  status: absent(status),
  values: absent(object),
};

/** Names for parts of a thread: `{"last": "values.messages[-1]"}`. */
const extract = z.record(text.min(1).max(100), z.string().max(500)).transform((paths, context) => {
  const entries = Object.entries(paths);
  if (entries.length > 10) context.addIssue({ code: "custom", message: "must not have more than 10 paths" });
  return entries.map(([name, path]) => {
    const steps = parsePath(path);
    if (steps !== undefined && EXTRACTED.has(String(steps[0]))) return { name, steps };
    const message = `must be a path like values.messages[-1], into ${[...EXTRACTED].join(", ")}`;
    context.addIssue({ code: "custom", path: [name], message });
    return z.NEVER;
  });
});

export const threadSearch = z.object({
  ...filter,
  ids: absent(z.array(threadId).max(1000)),
  limit: absent(limit),
  offset: absent(offset),
  sort_by: absent(z.enum(["thread_id", "status", "created_at", "updated_at", "state_updated_at"])),
  sort_order: absent(sortOrder),
  // "context" is a name the stock client's types have; a thread has none here.
  select: absent(z.array(z.enum([...THREAD_FIELDS, "context"]))),
  extract: absent(extract),
});

export const threadCount = z.object(filter);

const STATE_FIELDS = [
  "values",
  "next",
  "tasks",
  "checkpoint",
  "metadata",
  "created_at",
  "parent_checkpoint",
  "interrupts",
];

/** Which fields of a state: names, or `values.<key>` for one key of the values. */
export const stateSelect = z.array(z.string()).superRefine((fields, context) => {
  for (const [at, field] of fields.entries()) {
    if (STATE_FIELDS.includes(field) || /^values\../s.test(field)) continue;
    context.addIssue({
      code: "custom",
      path: [at],
      message: `must be values.<key> or one of ${STATE_FIELDS.join(", ")}`,
    });
  }
});

export const stateAtCheckpoint = z.object({
  checkpoint: absent(checkpoint),
  subgraphs: absent(z.union([z.boolean(), z.enum(["true", "false"]).transform((word) => word === "true")])),
  select: absent(stateSelect),
});

/** Labels for the thread whose state it is. */
export const statePatch = z.object({ metadata: absent(jsonObject) });

export const stateUpdate = z.object({
  // Content: taken as it is, so that no key or value of it changes on the way.
  values: z
    .unknown()
    .refine((values) => values === undefined || typeof values === "object", "must be an object, an array or null")
    .optional(),
  as_node: absent(text),
  checkpoint: absent(checkpoint),
  checkpoint_id: absent(uuid),
});

/** Where history goes on: a checkpoint's id, a checkpoint, or a config that names one. */
export const before = z.union(
  [
    uuid,
    z
      .object({ configurable: z.object({ checkpoint_id: uuid }) })
      .transform((config) => config.configurable.checkpoint_id),
    z.object({ checkpoint_id: uuid }).transform((point) => point.checkpoint_id),
  ],
  { error: "must be a checkpoint id, a checkpoint, or a config with configurable.checkpoint_id" },
);

export const stateHistory = z.object({
  limit: absent(limit),
  before: absent(before),
  metadata: absent(jsonObject),
  checkpoint: absent(checkpoint),
  select: absent(stateSelect),
});
