// Request bodies of the assistants routes.
import { z } from "zod";
import type { AssistantId } from "../../core/ids.js";
import { absent, jsonObject, limit, offset, sortOrder, text, uuid } from "./parts.js";

/** What only a run can be asked with: in an assistant it would hold for each of its runs, and rewind each of their attempts. */
const OF_RUNS = ["checkpoint_id", "checkpoint_ns", "checkpoint_map", "thread_id", "run_id", "perdure"];

const configurable = jsonObject.superRefine((value, context) => {
  for (const key of Object.keys(value)) {
    if (OF_RUNS.includes(key)) context.addIssue({ code: "custom", path: [key], message: "belongs to runs" });
    else if (key.startsWith("__"))
      context.addIssue({ code: "custom", path: [key], message: "keys that start with __ belong to the engine" });
  }
});

const settings = {
  config: absent(
    z.object({
      tags: absent(z.array(text).max(1_000)),
      recursion_limit: absent(z.number().int().min(1).max(1_000_000)),
      configurable: absent(configurable),
    }),
  ),
  context: absent(jsonObject),
  metadata: absent(jsonObject),
  name: absent(text.max(1_000)),
  description: absent(text.max(10_000)),
};
const graphId = text.min(1).max(200);

export const assistantCreate = z.object({
  ...settings,
  assistant_id: absent(uuid.transform((id) => id as AssistantId)),
  graph_id: graphId,
  if_exists: absent(z.enum(["raise", "do_nothing"])),
});

export const assistantPatch = z.object({ ...settings, graph_id: absent(graphId) });

export const assistantVersions = z.object({
  metadata: absent(jsonObject),
  limit: absent(limit),
  offset: absent(offset),
});

/** As large as the column's numbers go. */
export const assistantLatest = z.object({ version: z.number().int().min(1).max(2_147_483_647) });

const filter = {
  metadata: absent(jsonObject),
  graph_id: absent(text),
  name: absent(text),
};

const ASSISTANT_FIELDS = [
  "assistant_id",
  "graph_id",
  "name",
  "description",
  "version",
  "config",
  "context",
  "metadata",
  "created_at",
  "updated_at",
] as const;

export const assistantSearch = z.object({
  ...filter,
  limit: absent(limit),
  offset: absent(offset),
  sort_by: absent(z.enum(["assistant_id", "graph_id", "name", "created_at", "updated_at"])),
  sort_order: absent(sortOrder),
  select: absent(z.array(z.enum(ASSISTANT_FIELDS))),
});

export const assistantCount = z.object(filter);
