// The operations of perdure's own (/v1).
import { approvalList, decisionBody } from "../routes/approvals.js";
import { budgetBody, budgetList, priceBody } from "../routes/budgets.js";
import { conversationList, deliveryList } from "../routes/channels.js";
import { contactList, suppressionList } from "../routes/contacts.js";
import { firingList as cronFiringList } from "../routes/crons.js";
import { effectList } from "../routes/effects.js";
import * as failedRuns from "../routes/failed-runs.js";
import { followupList } from "../routes/followups.js";
import { logQuery } from "../routes/run-log.js";
import { firingList, occurrenceList, previewQuery, scheduleList } from "../routes/schedules.js";
import * as channels from "../schemas/channels.js";
import { followupCreate, followupReschedule } from "../schemas/followups.js";
import * as schedules from "../schemas/schedules.js";
import * as widget from "../widget/routes.js";
import { op, type Operations } from "./operation.js";

export const OPERATIONS_OF_RUNS: Operations = {
  "GET /v1/runs": op("List runs, and those that wait for a person", { query: failedRuns.runList }),
  "GET /v1/runs/:run_id": op("Read a run's record"),
  "GET /v1/runs/:run_id/events": op("Read a run's log, or follow it", { query: logQuery }),
  "POST /v1/runs/:run_id/retry": op("Go on with a run that failed", { body: failedRuns.resolution }),
  "POST /v1/runs/:run_id/close": op("Leave a run that failed", { body: failedRuns.resolution }),
  "GET /v1/effects": op("List effects", { query: effectList }),
  "GET /v1/approvals": op("List questions", { query: approvalList }),
  "GET /v1/approvals/:approval_id": op("Read a question"),
  "POST /v1/approvals/:approval_id/decide": op("Answer a question", { body: decisionBody }),
  "GET /v1/budgets": op("List budgets", { query: budgetList }),
  "GET /v1/budgets/:scope/:ref_id": op("Read a budget"),
  "PUT /v1/budgets/:scope/:ref_id": op("Set a budget", { body: budgetBody }),
  "GET /v1/prices": op("List prices of models"),
  "PUT /v1/prices/:model": op("Set the price of a model", { body: priceBody }),
  "GET /v1/crons/:cron_id/firings": op("List what became of a cron's times", { query: cronFiringList }),
};

export const CHANNELS: Operations = {
  "POST /v1/channel-accounts": op("Make an account of a channel", { body: channels.accountCreate }),
  "GET /v1/channel-accounts": op("List accounts of channels"),
  "GET /v1/channel-accounts/:channel_account_id": op("Read an account of a channel"),
  "PATCH /v1/channel-accounts/:channel_account_id": op("Change an account of a channel", {
    body: channels.accountPatch,
  }),
  "GET /v1/channels/:channel_account_id/webhook": op("Where a channel asks whether it may bring something", {
    answer: "text",
  }),
  "POST /v1/channels/:channel_account_id/webhook": op("Where a channel brings what has come", { answer: "text" }),
  "GET /v1/conversations": op("List conversations", { query: conversationList }),
  "PUT /v1/conversations": op("Tie an address to a thread", { body: channels.conversationPut }),
  "GET /v1/deliveries": op("List messages that go out", { query: deliveryList }),
  "GET /v1/deliveries/:delivery_id": op("Read a message with each try to send it"),
  "POST /v1/deliveries/:delivery_id/resolve": op("Say what became of a message", { body: channels.deliveryResolve }),
};

export const OUTREACH: Operations = {
  "GET /v1/followups": op("List follow-ups", { query: followupList }),
  "GET /v1/followups/:followup_id": op("Read a follow-up"),
  "POST /v1/threads/:thread_id/followups": op("Put work off", { body: followupCreate }),
  "POST /v1/followups/:followup_id/cancel": op("Cancel a follow-up"),
  "POST /v1/followups/:followup_id/reschedule": op("Put a follow-up to another time", { body: followupReschedule }),
  "POST /v1/schedules": op("Make a schedule", { body: schedules.scheduleCreate }),
  "GET /v1/schedules": op("List schedules", { query: scheduleList }),
  "GET /v1/schedules/:schedule_id": op("Read a schedule"),
  "PATCH /v1/schedules/:schedule_id": op("Change a schedule", { body: schedules.schedulePatch }),
  "DELETE /v1/schedules/:schedule_id": op("Delete a schedule", { answer: "nothing" }),
  "POST /v1/schedules/:schedule_id/pause": op("Pause a schedule"),
  "POST /v1/schedules/:schedule_id/resume": op("Resume a schedule"),
  "POST /v1/schedules/:schedule_id/run": op("Have a schedule write now", { body: schedules.scheduleRun }),
  "POST /v1/schedules/:schedule_id/backfill": op("Make up for times that were missed", {
    body: schedules.scheduleBackfill,
  }),
  "GET /v1/schedules/:schedule_id/preview": op("See when and to whom a schedule would write", { query: previewQuery }),
  "GET /v1/schedules/:schedule_id/firings": op("List a schedule's times", { query: firingList }),
  "GET /v1/schedules/:schedule_id/occurrences": op("List what a schedule made for whom", { query: occurrenceList }),
  "POST /v1/contacts": op("Make or change a contact", { body: schedules.contactPut }),
  "GET /v1/contacts": op("List contacts", { query: contactList }),
  "GET /v1/contacts/:contact_id": op("Read a contact"),
  "DELETE /v1/contacts/:contact_id": op("Delete a contact", { answer: "nothing" }),
  "POST /v1/suppressions": op("Keep somebody from being written to", { body: schedules.suppressionCreate }),
  "GET /v1/suppressions": op("List who isn't to be written to", { query: suppressionList }),
  "DELETE /v1/suppressions/:suppression_id": op("Let somebody be written to again", { answer: "nothing" }),
};

const CONVERSATION = "/v1/widget/conversations/:conversation_id";
export const WIDGET: Operations = {
  "GET /v1/widget.js": op("The script of the web widget", { answer: "script" }),
  "POST /v1/widget/sessions": op("Begin or go on with a session of the widget", { body: widget.sessionCreate }),
  [`GET ${CONVERSATION}/items`]: op("Read the items of a conversation", { query: widget.itemsQuery }),
  [`GET ${CONVERSATION}/events`]: op("Follow a conversation", { query: widget.eventsQuery, answer: "events" }),
  [`POST ${CONVERSATION}/messages`]: op("Say something", { body: widget.messageCreate }),
  [`POST ${CONVERSATION}/received`]: op("Say how far items have come", { body: widget.seqBody }),
  [`POST ${CONVERSATION}/read`]: op("Say how far items were read", { body: widget.seqBody }),
  [`POST ${CONVERSATION}/approvals/:approval_id`]: op("Answer a question", { body: widget.decisionBody }),
};
