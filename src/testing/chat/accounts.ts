// What the development chat asks of the API that it is for, as anybody could.
import type { AccountRequest } from "../channels/stand-in.js";
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
  url: string;
  ask<T>(method: string, path: string, body?: unknown): Promise<T>;
}>;

/** `key`: where it lets in only who has one. */
export function apiAt(apiUrl: string, key: string | null = null): Api {
  return {
    url: apiUrl,
    async ask<T>(method: string, path: string, body?: unknown) {
      const response = await fetch(new URL(path, apiUrl), {
        method,
        headers: { "content-type": "application/json", ...(key !== null && { "x-api-key": key }) },
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

type Named = Readonly<{ kind: string }>;
const nameOf = ({ kind }: Named): string => `dev chat: ${kind}`;
const WEB: Named = { kind: "web" };

/** The account of a room, whose stand-in is at another port each time; made unless it is there. */
export async function connectRoom(
  api: Api,
  room: Room,
  { assistantId, now }: Readonly<{ assistantId: string; now: () => Promise<Date> }>,
): Promise<void> {
  const account = await put(api, room, room.standIn.account(assistantId, room.settings));
  await room.standIn.connect({ webhookUrl: account.webhook_url, now });
}

/** The account of the widget that these pages carry; its id. */
export async function connectWidget(
  api: Api,
  { assistantId, origins }: Readonly<{ assistantId: string; origins: readonly string[] }>,
): Promise<string> {
  const settings = { assistant_id: assistantId, allowed_origins: origins };
  return (await put(api, WEB, { kind: WEB.kind, credentials: {}, settings })).channel_account_id;
}

async function put(api: Api, named: Named, request: Omit<AccountRequest, "name">): Promise<Account> {
  const [account] = await accountsOf(api, [named]);
  const { credentials, settings } = request;
  return account === undefined
    ? api.ask<Account>("POST", "/v1/channel-accounts", { ...request, name: nameOf(named) })
    : api.ask<Account>("PATCH", pathOf(account), { credentials, settings, paused: false });
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

async function accountsOf(api: Api, rooms: readonly Named[]): Promise<readonly Account[]> {
  const names = new Set(rooms.map(nameOf));
  return (await api.ask<readonly Account[]>("GET", "/v1/channel-accounts")).filter(({ name }) => names.has(name));
}

const pathOf = ({ channel_account_id: id }: Account): string => `/v1/channel-accounts/${id}`;
