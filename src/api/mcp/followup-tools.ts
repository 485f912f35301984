// The follow-up tools that agents have, for callers outside: they name the thread that theirs is by itself.
import { ErrorCode, McpError, type CallToolResult, type Tool } from "@modelcontextprotocol/sdk/types.js";
import type { Context } from "hono";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import type { FollowupId, ThreadId } from "../../core/ids.js";
import { threadNotFound } from "../../engine/commands/patch-thread.js";
import type { Engine } from "../../engine/engine.js";
import { scheduleSchema, shown, when } from "../../engine/followup-tools.js";
import { type FollowupRow, listFollowups } from "../../schedule/followups.js";
import { ask } from "../auth/ask.js";
import { reachesThread } from "../auth/things.js";
import type { ApiEnv } from "../env.js";
import { cancelFollowup, findFollowup, rescheduleFollowup, scheduleFollowup } from "../followups.js";
import { onceOf } from "../idempotency.js";
import { readAs } from "../request.js";
import { text, uuid } from "../schemas/parts.js";
import { answered } from "./results.js";

type C = Context<ApiEnv>;
type Served = Readonly<{
  description: string;
  schema: z.ZodType;
  call(engine: Engine, c: C, args: unknown): Promise<unknown>;
}>;

const threadId = uuid.describe("Of the thread that it belongs to");
const id = z.object({ id: uuid.describe("Of the follow-up, as it was scheduled") });
const { about, instruction } = scheduleSchema.shape;
const storable = (like: z.ZodString) =>
  text
    .max(like.maxLength ?? 0)
    .min(1)
    .describe(like.description ?? "");
const schedule = scheduleSchema.extend({
  threadId,
  about: storable(about),
  instruction: storable(instruction),
  assistantId: text.optional().describe("Who does it; whoever had the thread's last turn unless given"),
});
const list = z.object({ threadId: threadId.optional().describe("Only of this thread") });
const reschedule = id.extend({ when });

/** By the names that agents know them by. */
const TOOLS: Readonly<Record<string, Served>> = {
  schedule_followup: {
    description:
      "Promises something for later on a thread and returns at once. mode remind: the instruction is sent word for word. mode work: its agent is asked to do it then, and the answer is sent. Either goes to the person of the thread's conversation.",
    schema: schedule,
    async call(engine, c, args) {
      const asked = readAs(schedule, args);
      const ofThread = asked.threadId as ThreadId;
      const { within } = await ask(engine, c, "threads:update", { thread_id: ofThread });
      if (!(await reachesThread(engine, c, ofThread, within))) {
        throw threadNotFound({ tenantId: c.get("tenantId"), threadId: ofThread });
      }
      const once = onceOf(engine, c, { name: "schedule_followup", arguments: args });
      const { followup, warnings } = await scheduleFollowup(engine, c, { ...asked, threadId: ofThread, once });
      return { ...told(followup), warnings };
    },
  },
  list_followups: {
    description: "The follow-ups that are scheduled, of one thread or of all",
    schema: list,
    async call(engine, c, args) {
      const { threadId: ofThread = null } = readAs(list, args);
      const { within } = await ask(engine, c, "threads:search", {});
      const filter = { tenantId: c.get("tenantId"), threadId: ofThread as ThreadId | null, within };
      const rows = await listFollowups(engine.deps.db, { ...filter, status: "pending", limit: 100, offset: 0 });
      return { followups: rows.map(told) };
    },
  },
  cancel_followup: {
    description: "Takes a scheduled follow-up back; the outcome says whether it was too late",
    schema: id,
    async call(engine, c, args) {
      const followup = await own(engine, c, readAs(id, args).id);
      const outcome = await cancelFollowup(engine, followup, "over MCP");
      return { id: followup.followupId, outcome };
    },
  },
  reschedule_followup: {
    description: "Gives a scheduled follow-up another time",
    schema: reschedule,
    async call(engine, c, args) {
      const asked = readAs(reschedule, args);
      return told(await rescheduleFollowup(engine, await own(engine, c, asked.id), asked.when));
    },
  },
};

export const FOLLOWUP_TOOLS: readonly Tool[] = Object.entries(TOOLS).map(([name, { description, schema }]) => {
  const inputSchema = z.toJSONSchema(schema, { io: "input" }) as Tool["inputSchema"];
  return { name, description, inputSchema };
});

export function isFollowupTool(name: string): boolean {
  return Object.hasOwn(TOOLS, name);
}

export async function callFollowupTool(
  engine: Engine,
  c: C,
  { name, args }: Readonly<{ name: string; args: unknown }>,
): Promise<CallToolResult> {
  const tool = TOOLS[name];
  if (tool === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${name}`);
  return answered(await tool.call(engine, c, args));
}

/** Another's isn't there. */
async function own(engine: Engine, c: C, followupId: string): Promise<FollowupRow> {
  const { within } = await ask(engine, c, "threads:update", {});
  const found = await findFollowup(engine, { tenantId: c.get("tenantId"), followupId: followupId as FollowupId });
  const isTheirs =
    within === null || (found.threadId !== null && (await reachesThread(engine, c, found.threadId, within)));
  if (!isTheirs) throw new EngineError("not_found", `Follow-up ${followupId} not found`);
  return found;
}

function told(followup: FollowupRow) {
  return { ...shown(followup), threadId: followup.threadId };
}
