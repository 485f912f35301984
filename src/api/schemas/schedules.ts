// Bodies of requests about schedules and the people they write to.
import { z } from "zod";
import { CONDITION_OPS } from "../../delivery/audience.js";
import { MOST_BACKFILLED } from "../../engine/commands/run-schedule.js";
import { absent, jsonObject, text, uuid } from "./parts.js";

/** As many ids as one list may have. */
const MOST_NAMED = 10_000;
const wallTime = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time of day like "09:00"');
const attribute = text.min(1).max(100);
const instant = z.iso
  .datetime({ offset: true, error: "must be an instant like 2027-03-16T09:00:00Z" })
  .transform((value) => new Date(value));
const plainValue = z.union([text, z.number(), z.boolean()], "must be a text, a number, true or false");

const condition = z
  .object({
    attribute,
    op: z.enum(CONDITION_OPS),
    value: z.union([plainValue, z.array(plainValue).min(1).max(1_000)]).optional(),
  })
  .superRefine(({ op, value }, context) => {
    const wants = op === "exists" || op === "absent" ? "nothing" : op === "in" ? "a list" : "one value";
    const has = value === undefined ? "nothing" : Array.isArray(value) ? "a list" : "one value";
    if (wants !== has) context.addIssue({ code: "custom", path: ["value"], message: `must be ${wants} for ${op}` });
  });

const channel = { channel_account_id: absent(uuid) };
const ids = z.array(uuid).min(1).max(MOST_NAMED);
const audience = z.union(
  [
    z.strictObject({ contacts: ids, ...channel }),
    z.strictObject({ conversations: ids }),
    z.strictObject({ where: z.array(condition).max(20), ...channel }),
  ],
  'must be {"contacts": [ids]}, {"conversations": [ids]} or {"where": [{attribute, op, value}]}',
);

const when = z.union(
  [
    z.strictObject({ cron: text.min(1).max(200) }),
    z.strictObject({
      days_before: z.array(z.int().min(-3_650).max(3_650)).min(1).max(20),
      attribute,
      at: wallTime.default("09:00"),
    }),
    z.strictObject({ at: text.min(1).max(40) }),
  ],
  'must be {"cron": "0 9 * * MON"}, {"at": "2027-03-16T09:00:00"} or {"days_before": [90, 30], "attribute": "contract_end"}',
);

const fields = {
  name: text.min(1).max(80),
  when,
  time_zone: text.min(1).max(100),
  audience,
  mode: z.enum(["remind", "work"]),
  about: text.min(1).max(80),
  instruction: text.min(1).max(2_000),
  purpose: z.enum(["utility", "marketing"]),
  quiet_hours: z.strictObject({ from: wallTime, to: wallTime }).nullable(),
  catch_up: z.enum(["latest", "skip", "all"]).nullable(),
  catch_up_window: text,
  overlap: z.enum(["skip", "queue"]),
  jitter: text,
  expires_after: text.nullable(),
  starts_at: instant.nullable(),
  ends_at: instant.nullable(),
  max_occurrences: z.int().min(1).max(1_000_000).nullable(),
};

export const scheduleCreate = z.object({
  ...fields,
  purpose: fields.purpose.default("utility"),
  quiet_hours: fields.quiet_hours.default(null),
  catch_up: fields.catch_up.default(null),
  catch_up_window: fields.catch_up_window.default("PT6H"),
  overlap: fields.overlap.default("skip"),
  jitter: fields.jitter.default("PT15M"),
  expires_after: fields.expires_after.default(null),
  starts_at: fields.starts_at.default(null),
  ends_at: fields.ends_at.default(null),
  max_occurrences: fields.max_occurrences.default(null),
});

/** What is left out stays; `version` is the one that was read. */
export const schedulePatch = z
  .object(fields)
  .partial()
  .extend({ version: z.int().min(1) });

export const scheduleRun = z.object({ overlap: fields.overlap.optional() });
export const scheduleBackfill = z
  .object({ from: instant, to: instant, overlap: fields.overlap.optional() })
  .refine(({ from, to }) => from <= to, {
    message: `must not be before "from"; at most ${MOST_BACKFILLED} times are made at once`,
    path: ["to"],
  });

export const contactPut = z.object({
  key: text.min(1).max(200),
  attributes: jsonObject.optional(),
  time_zone: text.min(1).max(100).nullish(),
  locale: text.min(1).max(40).nullish(),
  /** What shows that they have agreed to marketing; null takes it back. */
  opt_in: z.object({ source: text.min(1).max(200) }).nullish(),
  conversation_ids: z.array(uuid).max(50).optional(),
});

export const suppressionCreate = z
  .object({
    contact_key: text.min(1).max(200).optional(),
    conversation_id: uuid.optional(),
    scope: z.enum(["all", "marketing"]).default("all"),
  })
  .refine(({ contact_key: key, conversation_id: id }) => (key === undefined) !== (id === undefined), {
    message: "must have either contact_key or conversation_id",
  });
