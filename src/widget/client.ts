// Keeps a tab's conversation up to date. Of all tabs of a page's origin one listens to the server, since browsers open only six connections
// to a host, and tells the others; when it goes, the next one takes its place. A tab that may have missed something asks by itself.
import type { Conversation } from "./conversation.js";
import { catchUp, follow, isFinal, pause } from "./follow.js";
import type { Server } from "./server.js";
import { exclusively, Refused, type Sessions } from "./session.js";
import type { Item, News, Page } from "./wire.js";

export type ClientOptions = Readonly<{
  account: string;
  server: Server;
  sessions: Sessions;
  conversation: Conversation;
  /** Somebody looks at the conversation in this tab now. */
  isSeen: () => boolean;
  onNew: (items: readonly Item[]) => void;
  onConnection: (state: Connection) => void;
}>;

/** `ended`: the server won't have us, and nothing is tried any more. */
export type Connection = "live" | "polling" | "away" | "ended";

const PAGE = 50;
/** So often a tab that is looked at makes sure, whatever the others tell. */
const CHECK_MS = 30_000;
const SEND_TRIES = 5;
const RECEIVED_MS = 500;

export type Client = ReturnType<typeof createClient>;

export function createClient(options: ClientOptions) {
  const { account, server, sessions, conversation, isSeen, onNew, onConnection } = options;
  const over = new AbortController();
  let channel: BroadcastChannel | undefined;
  let running: Promise<void> | undefined;
  let leads = false;
  let sending: Promise<void> = Promise.resolve();
  let ackedSeq = 0;
  let readSeq = 0;

  function take(news: News): void {
    const fresh = conversation.take(news);
    if (fresh.length > 0) onNew(fresh);
    acknowledge();
  }

  /** What is shown here has arrived, and what somebody looks at is read. */
  function acknowledge(): void {
    const upTo = conversation.lastSeq();
    const { status } = conversation.shown();
    if (isSeen() && upTo > Math.max(readSeq, status.read_seq)) {
      readSeq = upTo;
      ackedSeq = upTo;
      void server.post("/read", { up_to: upTo }).catch(() => (readSeq = 0));
    } else if (leads && upTo > Math.max(ackedSeq, status.received_seq)) {
      ackedSeq = upTo;
      setTimeout(() => void server.post("/received", { up_to: upTo }).catch(() => (ackedSeq = 0)), RECEIVED_MS);
    }
  }

  const ears = {
    server,
    lastSeq: conversation.lastSeq,
    onNews(news: News): void {
      take(news);
      channel?.postMessage(news);
    },
  };

  async function run(): Promise<void> {
    const { conversationId } = await sessions.get();
    if ("BroadcastChannel" in globalThis) {
      channel?.close();
      channel = new BroadcastChannel(`perdure.widget.${account}.${conversationId}`);
      channel.addEventListener("message", ({ data }: MessageEvent<News>) => void told(data));
    }
    await loadEarlier();
    // What arrived while nobody was here is taken as a whole, however much it is.
    while (conversation.shown().hasEarlier && conversation.firstSeq() > conversation.shown().status.received_seq + 1) {
      await loadEarlier();
    }
    onConnection("live");
    void keepChecking();
    await exclusively(`perdure.widget.${account}.${conversationId}`, async () => {
      leads = true;
      acknowledge();
      await follow({ ...ears, onConnection, signal: over.signal });
    });
  }

  /** By the tab that listens. */
  async function told(news: News): Promise<void> {
    const first = news.items?.[0];
    const missed = first !== undefined && first.seq > conversation.lastSeq() + 1;
    if (!missed) take(news);
    if (missed || (news.status?.last_seq ?? 0) > conversation.lastSeq()) await check();
  }

  /** What goes wrong here is for the next time. */
  async function check(): Promise<void> {
    await catchUp({ ...ears, onNews: take }).catch(() => undefined);
  }

  async function keepChecking(): Promise<void> {
    while (!over.signal.aborted) {
      await pause(CHECK_MS, over.signal);
      if (!leads && document.visibilityState === "visible" && !over.signal.aborted) await check();
    }
  }

  async function loadEarlier(): Promise<void> {
    const path = `/items?before=${conversation.firstSeq()}&limit=${PAGE}`;
    const { items, typing, ...status } = await server.get<Page>(path);
    take({ items, status, typing });
  }

  async function send(id: string, text: string): Promise<void> {
    conversation.fail(id, false);
    for (let tries = 1; ; tries += 1) {
      try {
        await start();
        await server.post("/messages", { client_message_id: id, text });
        return;
      } catch (error) {
        const isRefused = error instanceof Refused && error.status < 500 && error.status !== 429;
        if (isRefused || tries === SEND_TRIES) return conversation.fail(id, true);
        await pause(1_000 * 2 ** tries, over.signal);
      }
    }
  }

  /** Resolves when the conversation is there; begins to listen. */
  async function start(): Promise<void> {
    if (running === undefined) {
      const begun = keepRunning();
      running = begun;
    }
    await sessions.get();
  }

  async function keepRunning(): Promise<void> {
    for (let tries = 0; !over.signal.aborted; tries += 1) {
      try {
        return await run();
      } catch (error) {
        if (isFinal(error)) {
          onConnection("ended");
          throw error;
        }
        onConnection("away");
        await pause(1_000 * 2 ** Math.min(tries, 5), over.signal);
      }
    }
  }

  return {
    start: () => {
      void start().catch(() => undefined);
      running?.catch((error: unknown) => console.error("perdure widget:", error));
    },
    acknowledge,
    loadEarlier: () => loadEarlier().catch(() => undefined),
    write(text: string): void {
      const id = newId();
      conversation.write(id, text);
      this.resend(id, text);
    },
    /** In the order in which they were written. */
    resend(id: string, text: string): void {
      sending = sending.then(() => send(id, text));
    },
    /** What became of it, in words; undefined: it will be seen. */
    async decide(approvalId: string, decision: "approve" | "reject"): Promise<string | undefined> {
      try {
        const { message, closed } = await server.post<{ message: string; closed: boolean }>(
          `/approvals/${approvalId}`,
          { decision },
        );
        await check();
        return closed ? undefined : message;
      } catch (error) {
        return error instanceof Refused && error.status === 403
          ? "You may not decide this."
          : "That didn’t get through. Please try again.";
      }
    },
  };
}

/** `crypto.randomUUID` is there on secure pages only. */
function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
