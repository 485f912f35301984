// A follow-up as people and programs read it; what it is about and what is to be said are content, and stand in it for those who may
// read the thread.
import type { FollowupRow } from "../schedule/followups.js";
import { localText } from "../schedule/when.js";
import { contentOf } from "./followup-runs.js";

export function followupRecord(followup: FollowupRow) {
  const { about, instruction } = contentOf(followup);
  return {
    followup_id: followup.followupId,
    thread_id: followup.threadId,
    status: followup.status,
    reason: followup.reason,
    mode: followup.mode,
    about,
    instruction,
    fire_at: followup.fireAt,
    fires_at_local: localText(followup.fireAt, followup.timeZone ?? "UTC"),
    time_zone: followup.timeZone,
    not_after: followup.notAfter,
    cancel_if_person_writes: followup.cancelOnInbound,
    conversation_id: followup.conversationId,
    assistant_id: followup.assistantId,
    graph_id: followup.graphId,
    created_by: followup.createdBy,
    schedule_id: followup.scheduleId,
    origin_run_id: followup.originRunId,
    run_id: followup.runId,
    tell_run_id: followup.tellRunId,
    depth: followup.depth,
    chain_id: followup.chainId,
    created_at: followup.createdAt,
    updated_at: followup.updatedAt,
  };
}
