// What a run says, as rows for the outbox: cut and formed by the channel of the conversation that its turn came from. They are written
// by the transaction that settles the run, or never.
import { v5 as uuidv5 } from "uuid";
import type { OpenInterrupt } from "../checkpoint/pending.js";
import type { DeliverySource, OnUnknown, Outgoing, Rendered } from "../core/channel.js";
import { ON_UNKNOWN } from "../core/channel.js";
import type { Deps, Log, Sql } from "../core/deps.js";
import { isEngineError } from "../core/errors.js";
import type { ConversationId, DeliveryId, FollowupId, RunId, TenantId, ThreadId } from "../core/ids.js";
import { type ConversationRow, getConversation } from "../delivery/conversations.js";
import { type Posted, postedOf } from "../delivery/outbox.js";
import { type FollowupRow, getFollowup } from "../schedule/followups.js";
import type { Accounts, OpenAccount } from "./channel-accounts.js";
import { answerIn, questionsIn } from "./outgoing.js";

export type Speaker = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  runId: RunId;
  conversationId: ConversationId | null;
  followupId: FollowupId | null;
  followupPart: "work" | "tell" | null;
}>;

/** What a run that stopped by itself has to say in its conversation. */
export type Post = (
  run: Speaker,
  stopped: Readonly<{ finished: boolean; values: unknown; open: readonly OpenInterrupt[] }>,
) => Promise<readonly Posted[]>;

export function createPost(deps: Deps, accounts: Accounts): Post {
  return async (run, { finished, values, open }) => {
    if (run.conversationId === null) return [];
    // What a follow-up's work comes to is told on the conversation's thread, by a run of its own.
    const answer = finished && run.followupPart !== "work" ? answerIn(values) : undefined;
    const asked = finished ? [] : questionsIn(open);
    const isSilent = answer === undefined && finished && run.followupPart === null;
    if (isSilent) return [nothingSaid(deps, run, run.conversationId)];
    if (answer === undefined && asked.length === 0) return [];
    const there = await openConversation(deps, accounts, { ...run, conversationId: run.conversationId });
    if (there === undefined) return [];
    const say = (
      source: DeliverySource,
      sourceId: string,
      outgoing: Outgoing,
      notAfter: Date | null = null,
    ): Posted[] => postIn(deps, there, { source, sourceId, outgoing, run, notAfter });
    return [
      ...(answer === undefined ? [] : say(...(await sourceOf(deps, run, answer)))),
      // By what asks: a question that is still open when the thread goes on isn't asked again.
      ...asked.flatMap(({ interruptId, outgoing }) => say("question", uuidv5(interruptId, run.threadId), outgoing)),
    ];
  };
}

/** Nothing is sent, and whoever looks for the answer sees why. */
function nothingSaid({ ids }: Pick<Deps, "ids">, run: Speaker, conversationId: ConversationId): Posted {
  const [posted] = postedOf([{ kind: "text", payload: { text: "" } }], {
    ...({ source: "reply", sourceId: run.runId, onUnknown: "hold" } as const),
    ...{ newId: () => ids.next<DeliveryId>(), threadId: run.threadId, runId: run.runId, conversationId },
  });
  return { ...(posted as Posted), suppressed: "empty_reply" };
}

/** What a schedule made is judged again when it goes out, and isn't wanted for ever. */
async function sourceOf(
  { db }: Deps,
  { tenantId, followupId, runId }: Speaker,
  answer: Outgoing,
): Promise<[DeliverySource, string, Outgoing, Date | null]> {
  if (followupId === null) return ["reply", runId, answer, null];
  const followup = await getFollowup(db, { tenantId, followupId });
  return [sourceOfFollowup(followup), followupId, answer, followup?.notAfter ?? null];
}

export function sourceOfFollowup(followup: Pick<FollowupRow, "scheduleId"> | undefined): DeliverySource {
  return (followup?.scheduleId ?? null) === null ? "followup" : "outreach";
}

/** A conversation and what speaks there; `opened` is null where this process doesn't know its channel or its key. */
export type OpenConversation = Readonly<{ conversation: ConversationRow; opened: OpenAccount | null }>;

export async function openConversation(
  deps: Readonly<{ db: Sql; log: Log }>,
  accounts: Accounts,
  key: Readonly<{ tenantId: TenantId; conversationId: ConversationId }>,
): Promise<OpenConversation | undefined> {
  const conversation = await getConversation(deps.db, key);
  if (conversation === undefined) return undefined;
  try {
    return { conversation, opened: await accounts.open(deps.db, conversation) };
  } catch (error) {
    if (!isEngineError(error, "config_invalid")) throw error;
    deps.log.error({ conversation_id: key.conversationId, code: error.code }, error.message);
    return { conversation, opened: null };
  }
}

/** Rows for what is said there. */
export function postIn(
  deps: Pick<Deps, "ids">,
  { conversation, opened }: OpenConversation,
  said: Readonly<{
    source: DeliverySource;
    sourceId: string;
    outgoing: Outgoing;
    run: Readonly<{ threadId: ThreadId; runId: RunId | null }>;
    notAfter?: Date | null;
  }>,
): Posted[] {
  const { source, sourceId, outgoing, run, notAfter = null } = said;
  return postedOf(render(opened, conversation, outgoing), {
    newId: () => deps.ids.next<DeliveryId>(),
    source,
    sourceId,
    threadId: run.threadId,
    runId: run.runId,
    conversationId: conversation.conversationId,
    onUnknown: onUnknownOf(opened),
    notAfter,
  });
}

/** Without its adapter as one message, which every channel of ours can read. */
function render(opened: OpenAccount | null, { address }: ConversationRow, outgoing: Outgoing): readonly Rendered[] {
  return opened?.adapter.render(outgoing, address) ?? [{ kind: "text", payload: { ...outgoing } }];
}

function onUnknownOf(opened: OpenAccount | null): OnUnknown {
  const chosen = opened?.account.settings["on_unknown"];
  return ON_UNKNOWN.find((each) => each === chosen) ?? opened?.adapter.defaults.onUnknown ?? "hold";
}
