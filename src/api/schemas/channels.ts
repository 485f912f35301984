// Bodies of requests about channels, as far as they are the same for all of them: credentials and settings are each channel's own.
import { z } from "zod";
import { ON_UNKNOWN } from "../../core/channel.js";
import { asTimeZone } from "../../core/time-zone.js";
import { object, text, uuid } from "./parts.js";

const accountSettings = z.looseObject({
  assistant_id: text.min(1),
  mode: z.enum(["webhook", "polling"]).default("webhook"),
  on_unknown: z.enum(ON_UNKNOWN).optional(),
  webhook_secret: text.optional(),
  /** What the person is told when nothing comes of a follow-up: `{{about}}` is what it was about. Nothing without it. */
  failure_text: text.min(1).max(1_000).optional(),
  api_root: z.url({ protocol: /^https?$/ }).optional(),
});

export const accountCreate = z.object({
  kind: text.min(1).max(32),
  name: text.min(1).max(80),
  credentials: z.record(z.string(), text).default({}),
  settings: accountSettings,
});

export const accountPatch = z.object({
  credentials: z.record(z.string(), text).optional(),
  settings: accountSettings.partial().optional(),
  paused: z.boolean().optional(),
});

const timeZone = text.refine((name) => asTimeZone(name) !== undefined, 'must be a time zone like "Europe/Rome"');

export const conversationPut = z.object({
  channel_account_id: uuid,
  address: object,
  thread_id: uuid.optional(),
  time_zone: timeZone.optional(),
  locale: text.min(1).max(35).optional(),
});

export const deliveryResolve = z.object({ as: z.enum(["again", "sent"]) });
