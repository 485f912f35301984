// The development chat: what its page shows, and what can be done there.
import { type Api, askFor, connectRoom, connectWidget, hasAccounts, pausedRooms, resumeRoom } from "./accounts.js";
import { type Bubble, openRooms, type Room, Transcript } from "./rooms.js";

/** The database's clock, where it may be moved. */
export type ChatClock = Readonly<{
  now(): Promise<Date>;
  /** Null where it can't be moved. */
  advance: ((by: string) => Promise<void>) | null;
}>;

type Delivery = Readonly<{ provider_message_id: string | null; status: string }>;
type Assistant = Readonly<{ assistant_id: string; graph_id: string }>;

export type ChatState = Readonly<{
  now: Date;
  movable: boolean;
  /** Which one answers, of which there are. */
  assistant: string | null;
  assistants: readonly Assistant[];
  rooms: readonly Readonly<{
    kind: string;
    title: string;
    person: string;
    /** Whether what is written is read there; else it is asked elsewhere, and only the answer comes. */
    writes: boolean;
    troubles: readonly string[];
    paused: string | null;
    /** `status` is the delivery's, where the channel gave it an id. */
    bubbles: readonly (Bubble & Readonly<{ status: string | null }>)[];
  }>[];
  /** What a page has that carries the widget. */
  widget: Readonly<{ src: string; account: string }> | null;
  followups: readonly unknown[];
  deliveries: readonly Delivery[];
}>;

export type Action =
  | Readonly<{ do: "say"; kind: string; text: string }>
  | Readonly<{ do: "press"; kind: string; label: string }>
  | Readonly<{ do: "trouble"; kind: string; trouble: string; times: number }>
  | Readonly<{ do: "mend"; kind: string }>
  | Readonly<{ do: "resume"; kind: string }>
  | Readonly<{ do: "advance"; by: string }>
  | Readonly<{ do: "assistant"; assistant: string }>
  | Readonly<{ do: "cancel"; followup: string }>
  | Readonly<{ do: "resolve"; delivery: string; as: "again" | "sent" }>;

const SHOWN = 40;
const MAILBOX = { to: "ada@example.com" };

export type Chat = Readonly<{
  /** Whose script the page carries. */
  apiUrl: string;
  /** For a page that is served at these origins. */
  state(origins: readonly string[]): Promise<ChatState>;
  act(action: Action): Promise<void>;
  close(): Promise<void>;
}>;

/** Opens it; accounts are made when somebody looks, and are found again at the next start. */
export async function openChat(api: Api, clock: ChatClock): Promise<Chat> {
  const rooms = await openRooms();
  const transcripts = new Map(rooms.map((room) => [room.kind, new Transcript(room)]));
  const findAssistants = () => api.ask<readonly Assistant[]>("POST", "/assistants/search", { limit: 100 });
  let assistant = (await findAssistants())[0]?.assistant_id ?? null;
  let connecting: Promise<void> | undefined;
  let widget: Readonly<{ account: string; assistantId: string }> | null = null;

  const connectAll = async (): Promise<void> => {
    if (assistant === null) return;
    for (const room of rooms) await connectRoom(api, room, { assistantId: assistant, now: () => clock.now() });
  };
  const connected = (): Promise<void> =>
    (connecting ??= connectAll().catch((error: unknown) => {
      // The API may be starting again; whoever looks next tries it again.
      connecting = undefined;
      throw error;
    }));
  const widgetAt = async (origins: readonly string[]): Promise<ChatState["widget"]> => {
    if (assistant === null) return null;
    if (widget?.assistantId !== assistant) {
      widget = { account: await connectWidget(api, { assistantId: assistant, origins }), assistantId: assistant };
    }
    return { src: new URL("/v1/widget.js", api.url).href, account: widget.account };
  };
  const roomOf = (kind: string): Room => {
    const room = rooms.find((each) => each.kind === kind);
    if (room === undefined) throw new Error(`there is no channel "${kind}" here`);
    return room;
  };
  const say = async (room: Room, text: string): Promise<void> => {
    transcripts.get(room.kind)?.note(text);
    await (room.says?.(text) ?? askFor(api, room, { to: MAILBOX, text }));
  };
  if (await hasAccounts(api, rooms)) await connected();

  return {
    apiUrl: api.url,
    async state(origins) {
      await connected();
      const carried = await widgetAt(origins);
      const [now, paused, assistants, deliveries, followups] = await Promise.all([
        clock.now(),
        pausedRooms(api, rooms),
        findAssistants(),
        api.ask<readonly Delivery[]>("GET", `/v1/deliveries?limit=${SHOWN}`),
        api.ask<readonly unknown[]>("GET", `/v1/followups?limit=${SHOWN}`),
      ]);
      const statusOf = (id: string | null) =>
        deliveries.find((each) => id !== null && each.provider_message_id === id)?.status ?? null;
      return {
        ...{ now, movable: clock.advance !== null, assistant, assistants, widget: carried, followups, deliveries },
        rooms: rooms.map(({ kind, title, person, says, standIn }) => ({
          ...{ kind, title, person, writes: says !== null, troubles: standIn.troubles },
          paused: paused.get(kind) ?? null,
          bubbles: (transcripts.get(kind)?.bubbles() ?? []).map((each) => ({ ...each, status: statusOf(each.id) })),
        })),
      };
    },
    async act(action) {
      await connected();
      switch (action.do) {
        case "say":
          return say(roomOf(action.kind), action.text);
        case "press":
          return void (await roomOf(action.kind).presses?.(action.label));
        case "trouble":
          return roomOf(action.kind).standIn.fails(action.trouble, action.times);
        case "mend":
          return roomOf(action.kind).standIn.mends();
        case "resume":
          return resumeRoom(api, roomOf(action.kind));
        case "advance":
          if (clock.advance === null) throw new Error("the clock can't be moved; start with --movable-clock");
          return clock.advance(action.by);
        case "assistant":
          assistant = action.assistant;
          return connectAll();
        case "cancel":
          return void (await api.ask("POST", `/v1/followups/${encodeURIComponent(action.followup)}/cancel`, {}));
        case "resolve":
          return void (await api.ask("POST", `/v1/deliveries/${encodeURIComponent(action.delivery)}/resolve`, {
            as: action.as,
          }));
      }
    },
    close: async () => void (await Promise.all(rooms.map(({ standIn }) => standIn.close()))),
  };
}
