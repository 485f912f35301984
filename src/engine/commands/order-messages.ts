// Messages of a chat may come in any order, over any process. As long as no worker has looked at them they are put in the order in which the
// person wrote them: what the runs of the conversation are asked changes places, the runs keep theirs.
import type { Sql } from "../../core/deps.js";
import type { ConversationId, RunId, ThreadId } from "../../core/ids.js";
import type { AccountRow } from "../../delivery/accounts.js";
import { noteRun, placesOf } from "../../delivery/inbound.js";
import { lockWaitingRequests, replaceRequest } from "../../runs/merge.js";
import { decodeRequest, encodeRequest, type RunRequest } from "./request.js";

type Account = Pick<AccountRow, "tenantId" | "channelAccountId" | "kind">;
type Message = Readonly<{ id?: string }>;

/** Of the message that an event brought. */
export const messageIdOf = ({ kind, channelAccountId }: Account, externalId: string): string =>
  `${kind}:${channelAccountId}:${externalId}`;

/** In the caller's transaction, which has locked the thread. */
export async function orderMessages(
  sql: Sql,
  at: Account & Readonly<{ threadId: ThreadId; conversationId: ConversationId }>,
): Promise<void> {
  const waiting = (await lockWaitingRequests(sql, at)).map(({ runId, request }) => {
    const asked = decodeRequest(JSON.parse(request.toString("utf8")));
    return { runId, asked, groups: groupsOf(asked, at) };
  });
  const all = waiting.flatMap(({ groups }) => groups);
  if (all.length < 2) return;
  const places = await placesOf(sql, { ...at, externalIds: all.map(({ externalId }) => externalId) });
  // Where the channel doesn't say, they stay as they came.
  if (all.some(({ externalId }) => !places.has(externalId))) return;
  const placeOf = ({ externalId }: Group): number => places.get(externalId) ?? 0;
  const ordered = all.toSorted((a, b) => placeOf(a) - placeOf(b));
  if (ordered.every((group, index) => group === all[index])) return;
  for (const { runId, asked, groups } of waiting) {
    await ask(sql, at, runId, asked, ordered.splice(0, groups.length));
  }
}

async function ask(sql: Sql, at: Account, runId: RunId, asked: RunRequest, groups: readonly Group[]): Promise<void> {
  const messages = groups.flatMap((group) => group.messages);
  const input = { ...(asked.input as object), messages };
  await replaceRequest(sql, { ...at, runId }, encodeRequest({ ...asked, input }));
  for (const { externalId } of groups) await noteRun(sql, { ...at, externalId }, runId);
}

/** A message of the person's, and what stands before it for the agent's eyes. */
type Group = Readonly<{ externalId: string; messages: readonly Message[] }>;

function groupsOf({ input }: RunRequest, account: Account): Group[] {
  const { messages = [] } = (input ?? {}) as Readonly<{ messages?: readonly Message[] }>;
  const prefix = messageIdOf(account, "");
  const groups: Group[] = [];
  let before: Message[] = [];
  for (const message of messages) {
    before.push(message);
    if (message.id?.startsWith(prefix) !== true) continue;
    groups.push({ externalId: message.id.slice(prefix.length), messages: before });
    before = [];
  }
  return groups;
}
