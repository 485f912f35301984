// Bodies of requests about channels, as far as they are the same for all of them: credentials and settings are each channel's own.
import { z } from "zod";
import { ON_UNKNOWN } from "../../core/channel.js";
import { text } from "./parts.js";

const accountSettings = z.looseObject({
  assistant_id: text.min(1),
  mode: z.enum(["webhook", "polling"]).default("webhook"),
  on_unknown: z.enum(ON_UNKNOWN).optional(),
  webhook_secret: text.optional(),
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

export const deliveryResolve = z.object({ as: z.enum(["again", "sent"]) });
