import { z } from "zod";
import { text, uuid } from "./parts.js";

const when = z.union(
  [z.object({ in: text }), z.object({ at: text, time_zone: text.optional(), weekday: text.optional() })],
  'must be {"in": "PT10M"} or {"at": "2027-03-16T09:00:00", "time_zone": "Europe/Rome"}',
);

export const followupCreate = z.object({
  about: text.min(1).max(80),
  instruction: text.min(1).max(2_000),
  mode: z.enum(["remind", "work"]),
  when,
  not_after: text.optional(),
  cancel_if_person_writes: z.boolean().optional(),
  conversation_id: uuid.optional(),
  assistant_id: text.optional(),
});

export const followupReschedule = z.object({ when });
