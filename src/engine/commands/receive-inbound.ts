// What a channel brings, each as one transaction: a message becomes a run on its conversation's thread or part of one, once, however
// often and wherever it comes in. Who brought it can be told so as soon as that is stored.
import { pendingApprovals } from "../../approvals/approvals.js";
import type { InboundEvent } from "../../core/channel.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import { isUuid, type RunId, type TenantId, type ThreadId } from "../../core/ids.js";
import {
  type ConversationRow,
  findConversation,
  insertConversation,
  moveConversation,
  noteInbound,
  setReachable,
} from "../../delivery/conversations.js";
import { writeInbox } from "../../delivery/inbox.js";
import { noteReceipt, noteReceived, noteRun } from "../../delivery/inbound.js";
import { conversationOfReceipt } from "../../delivery/deliveries.js";
import { parkPending, postDeliveries, unparkDeliveries } from "../../delivery/outbox.js";
import { postIn } from "../post.js";
import { cancelledByWriting } from "../../schedule/followups.js";
import { cancelTimers } from "../../schedule/timers.js";
import { noteHeard } from "../../delivery/accounts.js";
import type { OpenAccount } from "../channel-accounts.js";
import { ring } from "../ring.js";
import { heedCode, heedWords } from "../said-no.js";
import type { Engine } from "../engine.js";
import { afterCreation, createRunIn, type CreateRunInput } from "./create-run.js";
import { messageIdOf, orderMessages } from "./order-messages.js";
import { addressRef, callerOf, newConversationId } from "./inbound-of.js";
import { receivePress } from "./receive-press.js";
import { withNote } from "./tell-agent.js";

type Of<K extends InboundEvent["kind"]> = Extract<InboundEvent, { kind: K }>;

/** Takes what came, in its order. A failure leaves the rest for when the channel brings it again. */
export async function receiveInbound(
  engine: Engine,
  opened: OpenAccount,
  events: readonly InboundEvent[],
): Promise<void> {
  await noteHeard(engine.deps.db, opened.row);
  for (const event of events) await receiveOne(engine, opened, event);
}

async function receiveOne(engine: Engine, opened: OpenAccount, event: InboundEvent): Promise<void> {
  const { deps } = engine;
  switch (event.kind) {
    case "message":
      return receiveMessage(engine, opened, event);
    case "press":
      return void (await receivePress(engine, opened, event));
    case "receipt":
      return receiveReceipt(deps, opened, event);
    case "reachable":
      return receiveReachable(deps, opened, event);
    case "moved":
      return receiveMoved(deps, opened, event);
  }
}

/** As often as a conversation may be begun elsewhere at the same time. */
const TRIES = 3;

/** Somebody else has just begun the conversation: what this transaction did for a thread of its own is taken back. */
class BegunElsewhere extends Error {
  override readonly name = "BegunElsewhere";
}

async function receiveMessage(engine: Engine, opened: OpenAccount, event: Of<"message">): Promise<void> {
  const { deps } = engine;
  const asked = await askedOf(engine, opened, event);
  for (let tries = 1; ; tries += 1) {
    try {
      const created = await deps.db.tx((sql) => acceptMessage(engine, sql, { opened, event, asked }));
      if (created === "known") return;
      afterCreation(deps, created);
      deps.notifier.notify("deliveries");
      return;
    } catch (error) {
      if (isEngineError(error, "conflict")) return sayNo(engine, opened, event);
      if (!(error instanceof BegunElsewhere) || tries === TRIES) throw error;
    }
  }
}

const ANSWER_FIRST = "There is a question to be answered first.";

/** The graph refuses messages while a question is open. The channel would bring it again and again; the person is told instead. */
async function sayNo({ deps }: Engine, opened: OpenAccount, event: Of<"message">): Promise<void> {
  const { row } = opened;
  await deps.db.tx(async (sql) => {
    if (!(await noteReceived(sql, { ...row, externalId: event.externalId, kind: "refused", runId: null }))) return;
    const conversation = await findConversation(sql, addressRef(opened, event.address));
    if (conversation === undefined) return;
    await noteInbound(sql, conversation, event.person);
    await heedWords(deps, sql, conversation, event.text);
    const said = {
      ...({ source: "notice", sourceId: deps.ids.next<string>(), outgoing: { text: ANSWER_FIRST } } as const),
      run: { threadId: conversation.threadId, runId: null },
    };
    await postDeliveries(sql, row.tenantId, postIn(deps, { conversation, opened }, said));
  });
  deps.notifier.notify("deliveries");
}

type Asked = Omit<CreateRunInput, "threadId" | "conversationId" | "ifNotExists">;

/** What a message asks for: a turn of the account's assistant. */
async function askedOf(engine: Engine, { row }: OpenAccount, event: Of<"message">): Promise<Asked> {
  const idOrGraphId = String(row.settings["assistant_id"]);
  const assistant = await engine.assistant({ tenantId: row.tenantId, idOrGraphId });
  if (assistant === undefined) {
    throw new EngineError("config_invalid", `channel account "${row.name}": there is no assistant "${idOrGraphId}"`);
  }
  const policy = engine.policyOf(assistant.graphId);
  const message = { type: "human", id: messageIdOf(row, event.externalId), content: event.text };
  return {
    tenantId: row.tenantId,
    assistant: { ...assistant, context: assistant.context ?? {} },
    request: {
      ...{ input: { messages: [message] }, command: null, config: {}, context: null, checkpoint: null },
      ...{
        interrupt_before: null,
        interrupt_after: null,
        stream_mode: ["values"],
        stream_subgraphs: false,
        watched: true,
      },
    },
    metadata: {},
    ...({ multitaskStrategy: "enqueue", onCompletion: "keep", afterSeconds: null } as const),
    priority: policy.priority,
    mergeWindowMs: policy.mergeWindowMs,
    caller: callerOf(row.kind, event),
    graph: null,
    createdBy: row.kind,
  };
}

/** "known": it came before. */
async function acceptMessage(
  engine: Engine,
  sql: Sql,
  { opened, event, asked }: Readonly<{ opened: OpenAccount; event: Of<"message">; asked: Asked }>,
) {
  const { deps } = engine;
  const { row } = opened;
  const key = { ...row, externalId: event.externalId };
  if (!(await noteReceived(sql, { ...key, ...event, runId: null }))) return "known";
  const at = addressRef(opened, event.address);
  const known = await findConversation(sql, at);
  const place = {
    conversationId: known?.conversationId ?? newConversationId(deps, opened.adapter, at),
    threadId: known?.threadId ?? deps.ids.next<ThreadId>(),
  };
  const answered = known === undefined ? asked : await asAnswer(sql, asked, known, event);
  const runId = deps.ids.next<RunId>();
  const request = known === undefined ? asked.request : await withNote(sql, known, answered.request, runId);
  const input = { ...answered, request, ...place, ifNotExists: known === undefined ? "create" : "reject" } as const;
  const created = await createRunIn(deps, sql, input, runId);
  if ("waiting" in created) throw created.waiting;
  const { person, address } = event;
  if (known === undefined && !(await insertConversation(sql, { ...at, ...place, address, person }))) {
    throw new BegunElsewhere();
  }
  await noteInbound(sql, { ...row, ...place }, person);
  await unparkDeliveries(sql, { ...row, ...place });
  await dropFollowups(sql, { ...row, ...place });
  await heedWords(deps, sql, { ...row, ...place }, event.text);
  await noteRun(sql, key, created.run.runId);
  await orderMessages(sql, { ...row, ...place });
  if (row.kind === "web")
    await writeInbox(sql, { ...row, ...place, clientMessageId: event.messageId, text: event.text });
  return created;
}

/**
 * What the person writes answers the one question that is open, where it is one that no button answers: in a chat there is no other
 * way to. All else is a message.
 */
async function asAnswer(
  sql: Sql,
  asked: Asked,
  { tenantId, threadId }: ConversationRow,
  { text }: Of<"message">,
): Promise<Asked> {
  const open = await pendingApprovals(sql, { tenantId, threadId });
  const [question] = open;
  if (open.length !== 1 || question?.form !== "other") return asked;
  const command = { resume: { [question.interruptId]: text } };
  return { ...asked, request: { ...asked.request, input: null, command }, mergeWindowMs: 0 };
}

/** What was to be done only if the person doesn't write. */
async function dropFollowups(sql: Sql, thread: Readonly<{ tenantId: TenantId; threadId: ThreadId }>): Promise<void> {
  const refIds = await cancelledByWriting(sql, thread);
  if (refIds.length > 0) await cancelTimers(sql, { tenantId: thread.tenantId, kinds: ["followup"], refIds });
}

async function receiveReceipt(deps: Deps, { row, adapter, account }: OpenAccount, event: Of<"receipt">): Promise<void> {
  // A token that isn't ours comes back from nobody, or from whoever made it up.
  const token = event.token !== null && isUuid(event.token) ? event.token : null;
  await deps.db.tx(async (sql) => {
    const conversationId = await noteReceipt(sql, { ...row, ...event, token });
    if (event.status === "failed" && event.code !== null) await heedReceipt(deps, sql, { ...row, ...event, token });
    if (conversationId === null) return;
    await ring(deps, sql, { tenantId: row.tenantId, conversationId }, adapter.doorbell?.(account) ?? null);
  });
  deps.notifier.notify("deliveries");
}

async function heedReceipt(
  deps: Deps,
  sql: Sql,
  receipt: Parameters<typeof conversationOfReceipt>[1] & { code: string | null },
) {
  const conversationId = await conversationOfReceipt(sql, receipt);
  if (conversationId !== undefined) await heedCode(deps, sql, { ...receipt, conversationId }, receipt.code);
}

async function receiveReachable(deps: Deps, opened: OpenAccount, event: Of<"reachable">): Promise<void> {
  await deps.db.tx(async (sql) => {
    const key = { ...opened.row, externalId: event.externalId };
    if (!(await noteReceived(sql, { ...key, kind: event.kind, runId: null }))) return;
    const conversation = await findConversation(sql, addressRef(opened, event.address));
    if (conversation === undefined) return;
    await setReachable(sql, conversation, event.code);
    await heedCode(deps, sql, conversation, event.code);
    if (event.code === null) await unparkDeliveries(sql, conversation);
    else await parkPending(sql, conversation, event.code);
  });
  deps.notifier.notify("deliveries");
}

async function receiveMoved(deps: Deps, opened: OpenAccount, event: Of<"moved">): Promise<void> {
  const to = { address: event.to, addressKey: opened.adapter.addressKey(event.to) };
  await moveConversation(deps.db, addressRef(opened, event.from), to);
}
