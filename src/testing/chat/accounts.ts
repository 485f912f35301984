// What the development chat asks of the API that it is for, as anybody could.
import type { Room } from "./rooms.js";

type Account = Readonly<{
  channel_account_id: string;
  name: string;
  webhook_url: string;
  status: string;
  paused_code: string | null;
}>;

type Conversation = Readonly<{ conversation_id: string; thread_id: string }>;

export type Api = Readonly<{
  ask<T>(method: string, path: string, body?: unknown): Promise<T>;
}>;

export function apiAt(apiUrl: string): Api {
  return {
    async ask<T>(method: string, path: string, body?: unknown) {
      const response = await fetch(new URL(path, apiUrl), {
        method,
        headers: { "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }).catch((cause: unknown) => {
        throw new Error("the API doesn't answer; it may be starting again", { cause });
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
      return JSON.parse(text) as T;
    },
  };
}

const nameOf = ({ kind }: Room): string => `dev chat: ${kind}`;

/** The account of a room, whose stand-in is at another port each time; made unless it is there. */
export async function connectRoom(
  api: Api,
  room: Room,
  { assistantId, now }: Readonly<{ assistantId: string; now: () => Promise<Date> }>,
): Promise<void> {
  const request = room.standIn.account(assistantId, room.settings);
  const [account] = await accountsOf(api, [room]);
  const { credentials, settings } = request;
  const made =
    account === undefined
      ? await api.ask<Account>("POST", "/v1/channel-accounts", { ...request, name: nameOf(room) })
      : await api.ask<Account>("PATCH", pathOf(account), { credentials, settings, paused: false });
  await room.standIn.connect({ webhookUrl: made.webhook_url, now });
}

/** Whether any was made before, so that what is promised there can arrive. */
export async function hasAccounts(api: Api, rooms: readonly Room[]): Promise<boolean> {
  return (await accountsOf(api, rooms)).length > 0;
}

/** By kind, why nothing goes out there; kinds that are well aren't in it. */
export async function pausedRooms(api: Api, rooms: readonly Room[]): Promise<ReadonlyMap<string, string>> {
  const paused = (await accountsOf(api, rooms)).filter(({ status }) => status === "paused");
  const found = paused.map(({ name, paused_code: code }) => [name, code ?? "paused"] as const);
  const byName = new Map(found);
  return new Map(
    rooms.flatMap((room) => (byName.has(nameOf(room)) ? [[room.kind, byName.get(nameOf(room)) ?? ""]] : [])),
  );
}

/** Has the agent asked, by a follow-up, and its answer sent to an address where nobody can write. */
export async function askFor(api: Api, room: Room, asked: Readonly<{ to: object; text: string }>): Promise<void> {
  const [account] = await accountsOf(api, [room]);
  if (account === undefined) throw new Error(`${room.title} has no account yet`);
  const put = { channel_account_id: account.channel_account_id, address: asked.to };
  const { conversation_id, thread_id } = await api.ask<Conversation>("PUT", "/v1/conversations", put);
  await api.ask("POST", `/v1/threads/${thread_id}/followups`, {
    ...{ about: asked.text.slice(0, 80), instruction: asked.text.slice(0, 2_000) },
    ...{ mode: "work", when: { in: "PT5S" }, conversation_id },
  });
}

export async function resumeRoom(api: Api, room: Room): Promise<void> {
  const [account] = await accountsOf(api, [room]);
  if (account !== undefined) await api.ask("PATCH", pathOf(account), { paused: false });
}

async function accountsOf(api: Api, rooms: readonly Room[]): Promise<readonly Account[]> {
  const names = new Set(rooms.map(nameOf));
  return (await api.ask<readonly Account[]>("GET", "/v1/channel-accounts")).filter(({ name }) => names.has(name));
}

const pathOf = ({ channel_account_id: id }: Account): string => `/v1/channel-accounts/${id}`;
