// Bodies of requests about crons. What a run may be asked, its cron may be; but for what only means something to who waits for it.
import { z } from "zod";
import { CRON_SORTS } from "../../schedule/crons.js";
import { absent, jsonObject, limit, offset, sortOrder, text, uuid } from "./parts.js";
import { CRON_RUN_FIELDS } from "./runs.js";

const instant = z.iso
  .datetime({ offset: true, local: true, error: "must be an instant like 2027-03-16T09:00:00Z" })
  .transform((value) => new Date(/(?:Z|[+-]\d{2}:?\d{2})$/i.test(value) ? value : `${value}Z`));
const completion = z.enum(["delete", "keep"]);
const times = { schedule: text.min(1).max(200), timezone: absent(text.min(1).max(100)), enabled: absent(z.boolean()) };

/** With a thread of its own for each run. */
export const cronCreate = z.object({
  ...CRON_RUN_FIELDS,
  ...times,
  end_time: absent(instant),
  on_run_completed: absent(completion),
});

export const threadCronCreate = cronCreate.extend({
  on_run_completed: absent(completion.refine((value) => value === "keep", "delete is for crons without a thread")),
});

const { assistant_id: _, ...runFields } = CRON_RUN_FIELDS;
/** What is left out stays; `end_time: null` takes it away. */
export const cronPatch = z.object({
  ...runFields,
  ...times,
  schedule: absent(times.schedule),
  end_time: instant.nullish(),
  on_run_completed: absent(completion),
});

const filter = {
  assistant_id: absent(text.min(1).max(200)),
  thread_id: absent(uuid),
  enabled: absent(z.boolean()),
  metadata: absent(jsonObject),
};

const CRON_FIELDS = [
  "cron_id",
  "assistant_id",
  "thread_id",
  "on_run_completed",
  "end_time",
  "schedule",
  "timezone",
  "created_at",
  "updated_at",
  "payload",
  "user_id",
  "next_run_date",
  "metadata",
  "enabled",
  "now",
] as const;

export const cronSearch = z.object({
  ...filter,
  limit: absent(limit),
  offset: absent(offset),
  sort_by: absent(z.enum(CRON_SORTS)),
  sort_order: absent(sortOrder),
  select: absent(z.array(z.enum(CRON_FIELDS))),
});

export const cronCount = z.object(filter);
