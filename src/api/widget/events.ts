// An inbox as server-sent events: what is stored first, then what comes. An item's id is its number, so a client that lost its connection
// goes on after the last one it has.
import type { Context } from "hono";
import { createEar } from "../../core/ear.js";
import { isTransientDbError } from "../../core/retry.js";
import { takeInbox } from "../../delivery/inbox.js";
import type { Engine } from "../../engine/engine.js";
import { type InboxItem, inboxState, type InboxState, readInbox } from "../../engine/inbox.js";
import type { ApiEnv } from "../env.js";
import { type OpenBody, streamEvents } from "../node-http.js";
import type { Visiting } from "./door.js";

const RETRY_MS = 3_000;
const COMMENT_MS = 15_000;
/** Tokens are renewed between two streams, and a deploy moves clients bit by bit. */
const OPEN_MS = 10 * 60_000;
/** What comes in a burst is told together. */
const GATHER_MS = 50;
const PAGE = 200;

export function inboxEvents(c: Context<ApiEnv>, engine: Engine, visiting: Visiting, afterSeq: number): Response {
  return streamEvents(c, async (body) => {
    try {
      await follow(engine, visiting, afterSeq, body);
    } catch (error) {
      const code = String((error as { code?: unknown }).code ?? "internal");
      engine.deps.log.warn({ conversation_id: visiting.conversationId, code }, "an inbox's stream broke off");
    }
  });
}

async function follow(engine: Engine, visiting: Visiting, afterSeq: number, body: OpenBody): Promise<void> {
  const { clock, db, random } = engine.deps;
  const untilMs = clock.monotonicMs() + Math.min(OPEN_MS * (0.9 + random() / 5), leftMs(visiting));
  const ear = createEar(clock);
  const stop = engine.inboxNews.watch(visiting, ear.hear);
  body.gone.addEventListener("abort", ear.hear, { once: true });
  let at: Position = { afterSeq, told: null };
  try {
    await body.write(`retry: ${RETRY_MS}\n\n`);
    while (!body.gone.aborted && clock.monotonicMs() < untilMs) {
      ear.forget();
      try {
        if (at.told === null) await takeInbox(db, { ...visiting, upTo: afterSeq, seen: false });
        at = await tell(engine, visiting, at, body);
        // It has come since, and may have been told of before we listened for it.
        if ((at.told?.last_seq ?? 0) > at.afterSeq) continue;
      } catch (error) {
        // A database that is away for a while is waited for: the client would only come back and ask again.
        if (!isTransientDbError(error)) throw error;
      }
      const lookedAtMs = clock.monotonicMs();
      const heard = await ear.wait(Math.min(COMMENT_MS, untilMs - lookedAtMs));
      if (!heard) await body.write(": \n\n");
      else await clock.sleep(lookedAtMs + GATHER_MS - clock.monotonicMs(), body.gone);
    }
  } finally {
    stop();
  }
}

/** At most as long as the session that opened it, by its own end and the time that it was made for. */
function leftMs({ expiresAt, now }: Visiting): number {
  return Math.max(0, expiresAt.getTime() - now.getTime());
}

type Position = Readonly<{ afterSeq: number; told: InboxState | null }>;

/** Everything that is new, then what has changed besides: looked at first, so that no change is told before the item that it came with. */
async function tell(engine: Engine, visiting: Visiting, from: Position, body: OpenBody): Promise<Position> {
  let { afterSeq } = from;
  const state = await inboxState(engine.deps.db, visiting);
  for (let page: InboxItem[] | null = null; page === null || page.length === PAGE; ) {
    page = await readInbox(engine.deps.db, { ...visiting, afterSeq, beforeSeq: null, limit: PAGE });
    for (const item of page) {
      const event = item.approval === null ? "message" : "approval";
      await body.write(`id: ${item.seq}\nevent: ${event}\ndata: ${JSON.stringify(item)}\n\n`);
      afterSeq = item.seq;
    }
  }
  const { typing, ...status } = state;
  const told = from.told;
  if (told?.typing !== typing) await body.write(`event: typing\ndata: ${JSON.stringify({ active: typing })}\n\n`);
  if (told === null || JSON.stringify(status) !== JSON.stringify({ ...told, typing: undefined })) {
    await body.write(`event: status\ndata: ${JSON.stringify(status)}\n\n`);
  }
  return { afterSeq, told: state };
}
