// Hears of what is new: over a stream of events, and by asking every few seconds where something between the server and this browser
// lets no stream through. Goes on by itself after whatever happens to the network.
import type { Server } from "./server.js";
import { Refused } from "./session.js";
import type { Item, News, Page, Status } from "./wire.js";

export type FollowOptions = Readonly<{
  server: Server;
  /** The number of the last item that is here. */
  lastSeq: () => number;
  onNews: (news: News) => void;
  onConnection: (state: "live" | "polling" | "away") => void;
  signal: AbortSignal;
}>;

/** A stream that says nothing for so long is none: the server says something every 15 s. */
const SILENCE_MS = 40_000;
const FIRST_WORD_MS = 8_000;
/** One that is cut earlier than this, again and again, is none either. */
const SHORT_MS = 5_000;
/** When a server goes, all of its browsers come back at once unless each waits a little. */
const APART_MS = 2_000;
const POLL_MS = 4_000;
/** Polls until a stream is tried again. */
const POLLS = 15;
const BACKOFF_MS = 1_000;
const BACKOFF_CAP_MS = 30_000;

/** Resolves when the signal aborts; rejects with `Refused` when the server won't have us. */
export async function follow(options: FollowOptions): Promise<void> {
  const { signal, onConnection } = options;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const heard = await listen(options, () => {
        failures = 0;
        onConnection("live");
      });
      if (heard) await pause(APART_MS * Math.random(), signal);
      else await poll(options);
      failures = 0;
    } catch (error) {
      if (isFinal(error)) throw error;
      if (signal.aborted) return;
      failures += 1;
      onConnection("away");
      const backoffMs = Math.min(BACKOFF_CAP_MS, BACKOFF_MS * 2 ** Math.min(failures, 10));
      await pause(backoffMs * (0.5 + Math.random() / 2), signal);
    }
  }
}

/** Asking again won't help. */
export function isFinal(error: unknown): boolean {
  return error instanceof Refused && [401, 403, 404].includes(error.status);
}

/** False when no stream came through. Resolves when it has ended, as each does after some minutes. */
async function listen({ server, lastSeq, onNews, signal }: FollowOptions, onOpen: () => void): Promise<boolean> {
  const over = new AbortController();
  const cut = (): void => over.abort();
  signal.addEventListener("abort", cut, { once: true });
  let silence = setTimeout(cut, FIRST_WORD_MS);
  let heard = false;
  const beganMs = performance.now();
  const isLong = (): boolean => heard && performance.now() - beganMs > SHORT_MS;
  try {
    const headers = { accept: "text/event-stream" };
    const { body } = await server.ask(`/events?after=${lastSeq()}`, { headers, signal: over.signal });
    if (body === null) return false;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return isLong();
      if (!heard) onOpen();
      heard = true;
      clearTimeout(silence);
      silence = setTimeout(cut, SILENCE_MS);
      const frames = (rest + value).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) tell(frame, onNews);
    }
  } catch (error) {
    if (isFinal(error)) throw error;
    return isLong();
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", cut);
    over.abort();
  }
}

function tell(frame: string, onNews: (news: News) => void): void {
  const field = (name: string) =>
    frame
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const data = JSON.parse(field("data") ?? "null") as unknown;
  const event = field("event");
  if (event === "message" || event === "approval") onNews({ items: [data as Item] });
  if (event === "status") onNews({ status: data as Status });
  if (event === "typing") onNews({ typing: (data as { active: boolean }).active });
}

async function poll(options: FollowOptions): Promise<void> {
  const { signal, onConnection } = options;
  for (let n = 0; n < POLLS && !signal.aborted; n += 1) {
    await catchUp(options);
    onConnection("polling");
    await pause(POLL_MS * (0.75 + Math.random() / 2), signal);
  }
}

/** Asks once for everything that is new. */
export async function catchUp({
  server,
  lastSeq,
  onNews,
}: Pick<FollowOptions, "server" | "lastSeq" | "onNews">): Promise<void> {
  for (;;) {
    const { items, typing, ...status } = await server.get<Page>(`/items?after=${lastSeq()}&limit=200`);
    onNews({ items, status, typing });
    if (items.length < 200) return;
  }
}

/** Over early when there is reason to hope: the network is back, or somebody looks at the page. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const end = (): void => {
      over.abort();
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    const once = { once: true, signal: over.signal };
    signal.addEventListener("abort", end, once);
    addEventListener("online", end, once);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && end(), once);
  });
}
