// The quick way for reminders that are due together: those whose conversations are at rest, which most are, share one statement. What it
// leaves out is fired one by one.
import type { AssistantRow } from "../../assistants/queries.js";
import { isTransientDbError } from "../../core/retry.js";
import type { FollowupId, RunId } from "../../core/ids.js";
import { type FollowupRow, getFollowups, type Telling, tellReminders } from "../../schedule/followups.js";
import type { TimerRow } from "../../schedule/timers.js";
import { contentOf, derivedId, priorityOfFollowup } from "../followup-runs.js";
import { mergeRequest } from "./layers.js";
import { encodeRequest } from "./request.js";
import { type TellEngine, tellRequest } from "./tell-followup.js";

/** The timers that have fired, as far as they are of reminders. */
export async function fireReminders(engine: TellEngine, due: readonly TimerRow[]): Promise<ReadonlySet<string>> {
  const timers = due.filter(({ kind }) => kind === "followup");
  // Alone, one is as quick the other way.
  if (timers.length < 2) return new Set();
  const { deps } = engine;
  try {
    const tellings = await tellingsOf(engine, timers);
    if (tellings.length === 0) return new Set();
    const told = await tellReminders(deps.db, tellings);
    if (told.size > 0) deps.notifier.notify("runs");
    return told;
  } catch (error) {
    if (isTransientDbError(error)) throw error;
    // One that can't be told must not take the others with it.
    return new Set();
  }
}

/** One for each thread. */
async function tellingsOf({ deps, assistant }: TellEngine, timers: readonly TimerRow[]): Promise<Telling[]> {
  const byId = new Map(timers.map((timer) => [`${timer.tenantId} ${timer.refId}`, timer]));
  const keys = timers.map(({ tenantId, refId }) => ({ tenantId, followupId: refId as FollowupId }));
  const tellings = new Map<string, Telling>();
  for (const followup of await getFollowups(deps.db, keys)) {
    const { tenantId, followupId, threadId, assistantId } = followup;
    const timer = byId.get(`${tenantId} ${followupId}`);
    const found = isPlain(followup) ? await assistant({ tenantId, idOrGraphId: assistantId }) : undefined;
    if (timer !== undefined && found !== undefined)
      tellings.set(`${tenantId} ${threadId}`, telling(followup, timer, found));
  }
  return [...tellings.values()];
}

/** Nothing has to be asked before it is told but what the statement asks; without a chat, the run that promised it is asked where it tells. */
function isPlain({ mode, status, scheduleId, cancelOnInbound, conversationId, originRunId }: FollowupRow): boolean {
  const tellsElsewhere = conversationId === null && originRunId !== null;
  return mode === "remind" && status === "pending" && scheduleId === null && !cancelOnInbound && !tellsElsewhere;
}

function telling(followup: FollowupRow, { timerId }: TimerRow, assistant: AssistantRow): Telling {
  const { tenantId, followupId, threadId, conversationId } = followup;
  const { assistantId, graphId } = assistant;
  const input = {
    ...{ tenantId, conversationId, assistant: { ...assistant, context: assistant.context ?? {} }, metadata: {} },
    ...({ multitaskStrategy: "enqueue", afterSeconds: null, priority: null } as const),
  };
  const request = mergeRequest(tellRequest(followupId, contentOf(followup).instruction), input, { config: {} });
  return {
    ...{ tenant_id: tenantId, timer_id: timerId, followup_id: followupId, thread_id: threadId },
    run_id: derivedId<RunId>(followupId, "tell"),
    ...{ assistant_id: assistantId, graph_id: graphId, priority: priorityOfFollowup(followup) },
    metadata_below: assistant.metadata,
    metadata: { followup_id: followupId, graph_id: graphId, assistant_id: assistantId },
    request: encodeRequest(request).toString("utf8"),
  };
}
