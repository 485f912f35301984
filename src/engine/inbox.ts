// A web conversation as its person reads it: items with their questions, and where it stands now.
import { type ApprovalRow, findQuestion } from "../approvals/approvals.js";
import type { Button } from "../core/channel.js";
import type { Sql } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { ConversationKey } from "../delivery/conversations.js";
import { inboxHeads, type InboxItemRow, inboxItems, inboxQuestions } from "../delivery/inbox.js";
import { activeThreads } from "../runs/runs.js";
import { pressed } from "./outgoing.js";

/** A question as far as it is decided. `pending` ones can be answered by their buttons. */
export type AskedItem = Readonly<{
  approval_id: string;
  status: ApprovalRow["status"];
  decision: string | null;
}>;

export type InboxItem = Readonly<{
  /** Its delivery's, or of who wrote it: the same in whatever way it comes. */
  id: string;
  seq: number;
  author: "agent" | "person";
  text: string;
  at: Date;
  approval: (AskedItem & Readonly<{ choices: readonly string[] }>) | null;
}>;

export type InboxPage = ConversationKey & Readonly<{ afterSeq: number; beforeSeq: number | null; limit: number }>;

export async function readInbox(sql: Sql, page: InboxPage): Promise<InboxItem[]> {
  const rows = await inboxItems(sql, page);
  return Promise.all(rows.map((row) => itemOf(sql, page.tenantId, row)));
}

type Said = Readonly<{ text: string; buttons?: readonly Button[] }>;

async function itemOf(sql: Sql, tenantId: TenantId, row: InboxItemRow): Promise<InboxItem> {
  const { text, buttons = [] } = JSON.parse(row.payload.toString("utf8")) as Said;
  const asked = buttons.length === 0 ? undefined : await askedOf(sql, tenantId, row.threadId, buttons);
  return {
    id: row.deliveryId ?? row.clientMessageId ?? String(row.seq),
    seq: row.seq,
    author: row.deliveryId === null ? "person" : "agent",
    text,
    at: row.createdAt,
    approval: asked === undefined ? null : { ...asked, choices: ["approve", "reject"] },
  };
}

async function askedOf(
  sql: Sql,
  tenantId: TenantId,
  threadId: ThreadId | null,
  buttons: readonly Button[],
): Promise<AskedItem | undefined> {
  const interruptId = pressed(buttons[0]?.id ?? "")?.interruptId;
  if (interruptId === undefined || threadId === null) return undefined;
  const question = await findQuestion(sql, { tenantId, threadId, interruptId });
  if (question === undefined) return undefined;
  return { approval_id: question.approvalId, status: question.status, decision: question.decision };
}

/** What is true now and no item: how far it goes, whether somebody is at work on an answer, and how its last questions stand. */
export type InboxState = Readonly<{
  last_seq: number;
  received_seq: number;
  read_seq: number;
  unread: number;
  typing: boolean;
  approvals: readonly AskedItem[];
}>;

/** Before the person has written for the first time. */
const NOTHING: InboxState = { last_seq: 0, received_seq: 0, read_seq: 0, unread: 0, typing: false, approvals: [] };
const QUESTIONS = 20;

export async function inboxState(sql: Sql, key: ConversationKey): Promise<InboxState> {
  const { tenantId, conversationId } = key;
  const [head] = await inboxHeads(sql, { tenantId, conversationIds: [conversationId] });
  if (head === undefined) return NOTHING;
  const [active, questions] = await Promise.all([
    activeThreads(sql, { tenantId, threadIds: [head.threadId] }),
    inboxQuestions(sql, { ...key, limit: QUESTIONS }),
  ]);
  const approvals = await Promise.all(
    questions.map(({ threadId, payload }) => {
      const { buttons = [] } = JSON.parse(payload.toString("utf8")) as Said;
      return askedOf(sql, tenantId, threadId, buttons);
    }),
  );
  return {
    last_seq: head.lastSeq,
    received_seq: head.receivedSeq,
    read_seq: head.readSeq,
    unread: head.unread,
    typing: active.size > 0,
    approvals: approvals.filter((asked) => asked !== undefined),
  };
}
