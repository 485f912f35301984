// The four tools with which an agent promises something and keeps it. There is no address among their arguments: the answer goes where
// the turn came from, whatever the model was told.
import { z } from "zod";
import { v5 as uuidv5 } from "uuid";
import { type AuthUser, userIn } from "../core/access.js";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { FollowupLimits } from "../core/followup-limits.js";
import { type FollowupId, isUuid, type RunId, type TenantId, type ThreadId, type TimerId } from "../core/ids.js";
import { durableTool, type EffectCall } from "../effects/durable-tool.js";
import { effectsOf } from "../effects/port.js";
import { listFollowups as listRows, type FollowupRow } from "../schedule/followups.js";
import { localText, UnclearTime } from "../schedule/when.js";
import { getRun } from "../runs/runs.js";
import { cancelFollowupIn, rescheduleFollowupIn } from "./commands/change-followup.js";
import { FollowupRefused, rootOf, scheduleFollowup as schedule } from "./commands/schedule-followup.js";
import { contentOf } from "./followup-runs.js";

/** When something is promised for, as models say it. */
export const when = z.union([
  z.object({ in: z.string().describe("An ISO 8601 duration from now, like PT10M, PT2H or P6W") }),
  z.object({
    at: z.string().describe("The time on the wall, like 2027-03-16T09:00:00"),
    timeZone: z.string().optional().describe("Whose wall, like Europe/Rome; the person's own unless given"),
    weekday: z.string().optional().describe("The day of the week that is meant, to check the date with"),
  }),
]);
const id = z.object({ id: z.string().describe("Of the follow-up, as it was scheduled") });

/** A local effect's place: the run that calls, and the transaction that everything is done in. */
type Place = Readonly<{
  tx: Sql;
  tenantId: TenantId;
  threadId: ThreadId;
  runId: RunId;
  timeZone: string | null;
  user: AuthUser | null;
  key: string;
  limits: FollowupLimits;
}>;

function placeOf({ tx, config, key }: EffectCall, name: string): Place {
  const port = effectsOf(config);
  if (tx === undefined || port === undefined) {
    throw new EngineError("effect_refused", `The tool "${name}" needs perdure: run its graph there`);
  }
  const zone = config.configurable?.["time_zone"];
  const { tenantId, threadId, runId, followups: limits } = port;
  const user = userIn(config.configurable);
  return { tx, tenantId, threadId, runId, key, limits, user, timeZone: typeof zone === "string" ? zone : null };
}

/** What can't be done is an answer that the model can do something about. */
async function answered(work: () => Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await work());
  } catch (error) {
    if (!(error instanceof UnclearTime || error instanceof FollowupRefused)) throw error;
    return JSON.stringify({ error: error.message });
  }
}

/** What is promised. */
export const scheduleSchema = z.object({
  about: z.string().min(1).max(80).describe("What it is about, in a few words"),
  instruction: z.string().min(1).max(2_000).describe("remind: the message to send. work: what is to be done then"),
  mode: z.enum(["remind", "work"]),
  when,
  notAfter: z.string().optional().describe("An ISO 8601 duration after its time from when on it isn't wanted any more"),
  cancelIfPersonWrites: z.boolean().optional().describe("Whether it is dropped when the person writes before"),
});

/** Schedules work or a reminder and returns at once: `{id, firesAtLocal, firesAt, warnings}`, or `{error}` saying what to mend. */
export const scheduleFollowup = durableTool(
  (asked: z.infer<typeof scheduleSchema>, call) =>
    answered(async () => {
      const { tx, key, tenantId, runId, ...place } = placeOf(call, "schedule_followup");
      const origin = await getRun(tx, { tenantId, runId });
      const followupId = uuidv5(key, NAMESPACE) as FollowupId;
      const ids = { followupId, timerId: timerIdOf(key), createdBy: "agent" } as const;
      const { followup, firesAtLocal, warnings } = await schedule(tx, { ...asked, ...place, ...ids, origin });
      return { id: followup.followupId, firesAtLocal, firesAt: followup.fireAt, warnings };
    }),
  {
    name: "schedule_followup",
    description:
      "Promises something for later and returns at once. mode remind: the instruction is sent word for word. mode work: you are asked to do it then, and your answer is sent. Either goes to the person of this conversation.",
    schema: scheduleSchema,
    effect: "local",
  },
);

/** The open follow-ups of the conversation. */
export const listFollowups = durableTool(
  (_asked: Record<string, never>, call) =>
    answered(async () => {
      const { tx, tenantId, ...place } = placeOf(call, "list_followups");
      const threadId = await threadOf(tx, { tenantId, ...place });
      const rows = await listRows(tx, { tenantId, threadId, status: "pending", limit: 100, offset: 0 });
      return rows.map(shown);
    }),
  {
    name: "list_followups",
    description: "The follow-ups that are scheduled in this conversation",
    schema: z.object({}),
    effect: "local",
  },
);

/** Takes one back: `{id, outcome}`, where outcome says whether it was too late. */
export const cancelFollowup = durableTool(
  (asked: z.infer<typeof id>, call) =>
    answered(async () => {
      const { tx, tenantId, key, ...place } = placeOf(call, "cancel_followup");
      const threadId = await threadOf(tx, { tenantId, ...place });
      const of = { tenantId, threadId, followupId: idOf(asked.id), timerId: timerIdOf(key) };
      const { outcome } = await cancelFollowupIn(tx, { ...of, reason: "by the agent" });
      return { id: asked.id, outcome };
    }),
  { name: "cancel_followup", description: "Takes a scheduled follow-up back", schema: id, effect: "local" },
);

/** Puts one off, or has it earlier. */
export const rescheduleFollowup = durableTool(
  (asked: z.infer<typeof id> & Readonly<{ when: z.infer<typeof when> }>, call) =>
    answered(async () => {
      const { tx, tenantId, key, timeZone, ...place } = placeOf(call, "reschedule_followup");
      const threadId = await threadOf(tx, { tenantId, ...place });
      const of = { tenantId, threadId, followupId: idOf(asked.id), timerId: timerIdOf(key) };
      return shown(await rescheduleFollowupIn(tx, { ...of, when: asked.when, timeZone, limits: place.limits }));
    }),
  {
    name: "reschedule_followup",
    description: "Gives a scheduled follow-up another time",
    schema: id.extend({ when }),
    effect: "local",
  },
);

/** All four, for the tools of an agent, or of a model and its tool node. */
export const followupTools = [scheduleFollowup, listFollowups, cancelFollowup, rescheduleFollowup];

const NAMESPACE = "8a3e0c9c-6f0e-4d5e-9a53-6f1f7f6f6d01";

const timerIdOf = (key: string): TimerId => uuidv5(`timer ${key}`, NAMESPACE) as TimerId;

function idOf(text: string): FollowupId {
  if (!isUuid(text)) throw new FollowupRefused(`There is no follow-up ${JSON.stringify(text)}`);
  return text.toLowerCase() as FollowupId;
}

/** The conversation's: the work of a follow-up has a thread of its own. */
async function threadOf(tx: Sql, { tenantId, runId, threadId }: Pick<Place, "tenantId" | "runId" | "threadId">) {
  const run = await getRun(tx, { tenantId, runId });
  return run === undefined ? threadId : rootOf(tx, run);
}

/** A follow-up as models read it. */
export function shown(followup: FollowupRow) {
  const { followupId, mode, fireAt, timeZone } = followup;
  const firesAtLocal = localText(fireAt, timeZone ?? "UTC");
  return { id: followupId, about: contentOf(followup).about, mode, firesAtLocal, firesAt: fireAt };
}
