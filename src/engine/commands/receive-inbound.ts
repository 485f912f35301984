// What a channel brings, each as one transaction: a message becomes a run on its conversation's thread or part of one, once, however
// often and wherever it comes in. Who brought it can be told so as soon as that is stored.
import { type ApprovalRow, findQuestion } from "../../approvals/approvals.js";
import type { InboundEvent } from "../../core/channel.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import type { Caller } from "../../core/approval.js";
import { type ConversationId, isUuid, type RunId, type TenantId, type ThreadId } from "../../core/ids.js";
import {
  type AddressRef,
  findConversation,
  insertConversation,
  moveConversation,
  noteInbound,
  setReachable,
} from "../../delivery/conversations.js";
import { noteReceipt, noteReceived, noteRun } from "../../delivery/inbound.js";
import { parkPending, unparkDeliveries } from "../../delivery/outbox.js";
import { cancelledByWriting } from "../../schedule/followups.js";
import { cancelTimers } from "../../schedule/timers.js";
import type { OpenAccount } from "../channel-accounts.js";
import { DOORBELL } from "../../delivery/channel.js";
import { ring } from "../ring.js";
import type { Engine } from "../engine.js";
import { acceptance, rejection } from "../hitl.js";
import { pressed } from "../outgoing.js";
import { graphShape } from "../refuse-unknown.js";
import { afterCreation, createRunIn, type CreateRunInput } from "./create-run.js";
import { decideApproval } from "./decide-approval.js";

type Of<K extends InboundEvent["kind"]> = Extract<InboundEvent, { kind: K }>;

/** Takes what came, in its order. A failure leaves the rest for when the channel brings it again. */
export async function receiveInbound(
  engine: Engine,
  opened: OpenAccount,
  events: readonly InboundEvent[],
): Promise<void> {
  for (const event of events) await receiveOne(engine, opened, event);
}

async function receiveOne(engine: Engine, opened: OpenAccount, event: InboundEvent): Promise<void> {
  const { deps } = engine;
  switch (event.kind) {
    case "message":
      return receiveMessage(engine, opened, event);
    case "press":
      return receivePress(engine, opened, event);
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
      if (!(error instanceof BegunElsewhere) || tries === TRIES) throw error;
    }
  }
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
  const message = { type: "human", id: `${row.kind}:${row.channelAccountId}:${event.externalId}`, content: event.text };
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

/** Who wrote or pressed, as deciders name them: `telegram:123`. */
function callerOf(kind: string, { person }: Of<"message" | "press">): Caller {
  return { person: `${kind}:${person.id}`, roles: [] };
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
  if (!(await noteReceived(sql, { ...key, kind: event.kind, runId: null }))) return "known";
  const at = addressRef(opened, event.address);
  const known = await findConversation(sql, at);
  const place = {
    conversationId: known?.conversationId ?? deps.ids.next<ConversationId>(),
    threadId: known?.threadId ?? deps.ids.next<ThreadId>(),
  };
  const input = { ...asked, ...place, ifNotExists: known === undefined ? "create" : "reject" } as const;
  const runId = deps.ids.next<RunId>();
  const created = await createRunIn(deps, sql, input, runId);
  if ("waiting" in created) throw created.waiting;
  const { person, address } = event;
  if (known === undefined && !(await insertConversation(sql, { ...at, ...place, address, person }))) {
    throw new BegunElsewhere();
  }
  await noteInbound(sql, { ...row, ...place }, person);
  await unparkDeliveries(sql, { ...row, ...place });
  await dropFollowups(sql, { ...row, ...place });
  await noteRun(sql, key, created.run.runId);
  return created;
}

/** What was to be done only if the person doesn't write. */
async function dropFollowups(sql: Sql, thread: Readonly<{ tenantId: TenantId; threadId: ThreadId }>): Promise<void> {
  const refIds = await cancelledByWriting(sql, thread);
  if (refIds.length > 0) await cancelTimers(sql, { tenantId: thread.tenantId, kinds: ["followup"], refIds });
}

function addressRef({ row, adapter }: OpenAccount, address: Of<"message">["address"]): AddressRef {
  return { ...row, addressKey: adapter.addressKey(address) };
}

/** A press decides the question as often as it comes: the first counts, and each is told what became of it. */
async function receivePress(engine: Engine, opened: OpenAccount, event: Of<"press">): Promise<void> {
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
  if (told === null) return;
  const { adapter, account } = opened;
  const signal = AbortSignal.timeout(adapter.defaults.timeoutMs);
  await adapter.acknowledge?.(event, told, account, signal).catch((error: unknown) => {
    const code = String((error as { code?: unknown }).code ?? "failed");
    deps.log.warn({ channel_account_id: account.channelAccountId, code }, "a press could not be acknowledged");
  });
}

type Told = Readonly<{ text: string; closed: boolean }>;
const UNKNOWN_BUTTON: Told = { text: "This button is not in use any more.", closed: true };
const NOT_YOURS: Told = { text: "You may not decide this.", closed: false };

/** What the person is told. */
async function decide(engine: Engine, opened: OpenAccount, event: Of<"press">): Promise<Told> {
  const { row } = opened;
  const button = pressed(event.id);
  const conversation = await findConversation(engine.deps.db, addressRef(opened, event.address));
  if (button === undefined || conversation === undefined) return UNKNOWN_BUTTON;
  const { interruptId, yes } = button;
  const question = await findQuestion(engine.deps.db, { ...conversation, interruptId });
  if (question === undefined) return UNKNOWN_BUTTON;
  const caller = callerOf(row.kind, event);
  if (question.status !== "pending") return closedText(question);
  // Where nobody is named, it is the person who asked for what is to be decided.
  if (question.policy.deciders === null && conversation.person["id"] !== event.person.id) return NOT_YOURS;
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
      const closed = await findQuestion(engine.deps.db, { ...conversation, interruptId });
      return closed === undefined ? UNKNOWN_BUTTON : closedText(closed);
    }
    throw error;
  }
}

function closedText({ status, decision, decidedBy }: ApprovalRow): Told {
  if (status !== "decided") return { text: "This question is closed.", closed: true };
  const how = `${decision === null ? "" : `: ${decision}`}${decidedBy === null ? "" : `, by ${decidedBy}`}`;
  return { text: `Already decided${how}.`, closed: true };
}

async function receiveReceipt(deps: Deps, { row, adapter, account }: OpenAccount, event: Of<"receipt">): Promise<void> {
  // A token that isn't ours comes back from nobody, or from whoever made it up.
  const token = event.token !== null && isUuid(event.token) ? event.token : null;
  await deps.db.tx(async (sql) => {
    const conversationId = await noteReceipt(sql, { ...row, ...event, token });
    if (conversationId === null) return;
    await ring(deps, sql, { tenantId: row.tenantId, conversationId }, adapter.doorbell?.(account) ?? null);
  });
  deps.notifier.notify("deliveries");
}

async function receiveReachable(deps: Deps, opened: OpenAccount, event: Of<"reachable">): Promise<void> {
  await deps.db.tx(async (sql) => {
    const key = { ...opened.row, externalId: event.externalId };
    if (!(await noteReceived(sql, { ...key, kind: event.kind, runId: null }))) return;
    const conversation = await findConversation(sql, addressRef(opened, event.address));
    if (conversation === undefined) return;
    await setReachable(sql, conversation, event.code);
    if (event.code === null) await unparkDeliveries(sql, conversation);
    else await parkPending(sql, conversation, event.code);
  });
  deps.notifier.notify("deliveries");
}

async function receiveMoved(deps: Deps, opened: OpenAccount, event: Of<"moved">): Promise<void> {
  const to = { address: event.to, addressKey: opened.adapter.addressKey(event.to) };
  await moveConversation(deps.db, addressRef(opened, event.from), to);
}
