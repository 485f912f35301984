// A button was pressed: it decides a question, if whoever pressed it may.
import { type ApprovalRow, findQuestion } from "../../approvals/approvals.js";
import type { InboundEvent } from "../../core/channel.js";
import type { Sql } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import { DOORBELL } from "../../delivery/channel.js";
import { type ConversationRow, findConversation, noteInbound } from "../../delivery/conversations.js";
import { noteReceived } from "../../delivery/inbound.js";
import { askingThreads } from "../../delivery/deliveries.js";
import { unparkDeliveries } from "../../delivery/outbox.js";
import type { OpenAccount } from "../channel-accounts.js";
import type { Engine } from "../engine.js";
import { acceptance, rejection } from "../hitl.js";
import { pressed } from "../outgoing.js";
import { graphShape } from "../refuse-unknown.js";
import { decideApproval } from "./decide-approval.js";
import { addressRef, callerOf } from "./inbound-of.js";

type Press = Extract<InboundEvent, { kind: "press" }>;

/** A press decides the question as often as it comes: the first counts, and each is told what became of it. */
export async function receivePress(engine: Engine, opened: OpenAccount, event: Press): Promise<Told | null> {
  const { deps } = engine;
  const told = event.id === DOORBELL ? null : await decide(engine, opened, event);
  await deps.db.tx(async (sql) => {
    const key = { ...opened.row, externalId: event.externalId };
    if (!(await noteReceived(sql, { ...key, kind: event.kind, runId: null }))) return;
    const conversation = await findConversation(sql, addressRef(opened, event.address));
    if (conversation === undefined) return;
    // Anybody who sees a button can press it.
    await noteInbound(sql, conversation, null);
    await unparkDeliveries(sql, conversation);
  });
  deps.notifier.notify("deliveries");
  if (told === null) return null;
  const { adapter, account } = opened;
  const signal = AbortSignal.timeout(adapter.defaults.timeoutMs);
  await adapter.acknowledge?.(event, told, account, signal).catch((error: unknown) => {
    const code = String((error as { code?: unknown }).code ?? "failed");
    deps.log.warn({ channel_account_id: account.channelAccountId, code }, "a press could not be acknowledged");
  });
  return told;
}

/** What became of a press, for who pressed; `closed`: there is nothing left to decide; `refused`: they may not. */
type Told = Readonly<{ text: string; closed: boolean; refused?: boolean }>;
const UNKNOWN_BUTTON: Told = { text: "This button is not in use any more.", closed: true };
const NOT_POSSIBLE = ["bad_request", "conflict", "graph_changed", "not_found"] as const;
const NOT_YOURS: Told = { text: "You may not decide this.", closed: false, refused: true };

/** What the person is told. */
async function decide(engine: Engine, opened: OpenAccount, event: Press): Promise<Told> {
  const { row } = opened;
  const button = pressed(event.id);
  const conversation = await findConversation(engine.deps.db, addressRef(opened, event.address));
  if (button === undefined || conversation === undefined) return UNKNOWN_BUTTON;
  const { interruptId, yes } = button;
  const question = await questionOf(engine.deps.db, conversation, interruptId);
  if (question === undefined) return UNKNOWN_BUTTON;
  const caller = callerOf(row.kind, event);
  if (question.status !== "pending") return closedText(question);
  // Where nobody is named, it is the person who asked for what is to be decided.
  const asked = conversation.person["id"] ?? opened.adapter.personAt?.(conversation.address);
  if (question.policy.deciders === null && asked !== event.person.id) return NOT_YOURS;
  try {
    await decideApproval(engine.deps, {
      tenantId: row.tenantId,
      approvalId: question.approvalId,
      value: yes ? acceptance(question) : rejection(question, "rejected by the person who was asked"),
      caller,
      shapeOf: (asking) => graphShape(engine, asking),
      decidedBy: caller.person ?? row.kind,
      once: null,
    });
    return { text: yes ? "Approved." : "Rejected.", closed: true };
  } catch (error) {
    if (isEngineError(error, "forbidden")) return NOT_YOURS;
    if (isEngineError(error, "more_votes_needed")) {
      return { text: "Your vote counts. Another one is needed.", closed: false };
    }
    if (isEngineError(error, "not_pending")) {
      const closed = await questionOf(engine.deps.db, conversation, interruptId);
      return closed === undefined ? UNKNOWN_BUTTON : closedText(closed);
    }
    // Trying again, as the channel would, can't help.
    if (NOT_POSSIBLE.some((code) => isEngineError(error, code))) {
      return { text: "This can't be decided here. Please ask whoever runs this bot.", closed: false };
    }
    throw error;
  }
}

/** On the conversation's thread, or on that of a follow-up's work, whose questions are asked here as well. */
async function questionOf(
  sql: Sql,
  conversation: ConversationRow,
  interruptId: string,
): Promise<ApprovalRow | undefined> {
  const { tenantId } = conversation;
  for (const threadId of await askingThreads(sql, conversation)) {
    const found = await findQuestion(sql, { tenantId, threadId, interruptId });
    if (found !== undefined) return found;
  }
  return undefined;
}

function closedText({ status, decision, decidedBy }: ApprovalRow): Told {
  if (status !== "decided") return { text: "This question is closed.", closed: true };
  const how = `${decision === null ? "" : `: ${decision}`}${decidedBy === null ? "" : `, by ${decidedBy}`}`;
  return { text: `Already decided${how}.`, closed: true };
}
