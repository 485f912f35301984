// Request bodies of the assistants routes.
import { z } from "zod";
import { absent, jsonObject, limit, offset, sortOrder, text } from "./parts.js";

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
