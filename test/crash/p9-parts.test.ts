// P9 for an answer of 10,000 characters, which is three messages: what arrived of it is never sent again, whatever becomes of the rest. The
// second gets a 503, and the deliverer is killed before it could write that down; another goes on.
//
// Telegram's 503 says nothing about whether the message was taken, with an envelope or without: what is owed then is what the policy says.
// Sent again it is where the account wants that (`resend`), or where the same again changes nothing (`reserve_edit`): 1, 2, 2, 3. Under `hold`
// nobody sends it again but a person: 1, 2, 3, and then 2. WhatsApp's 503 with Meta's envelope is a message that wasn't taken; who was killed
// with that in hand leaves one of which nobody knows, and it is sent again when no receipt has told of it (`reconcile`): 1, 2, 2, 3.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { DEFAULT_TENANT, type DeliveryId } from "../../src/core/ids.js";
import { noteHeard } from "../../src/delivery/accounts.js";
import { telegram as telegramAdapter } from "../../src/delivery/channels/telegram.js";
import { resolveDelivery } from "../../src/delivery/deliveries.js";
import type { StandInRequest } from "../../src/testing/channels/stand-in.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";
import { moveClock } from "../../src/testing/clock.js";
import { letTimePass, MOVABLE_TIMEOUT_MS, type Outbox, withOutbox } from "../helpers/deliveries.js";
import { startProcess } from "../helpers/processes.js";
import { reachedBy } from "../helpers/receipts.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
const ANSWER = Array.from({ length: 1_250 }, (_, n) => String(n).padStart(7, "0")).join(" ");
const PARTS = telegramAdapter.render({ text: ANSWER }, { chat_id: 1 }).map(({ payload }) => String(payload["text"]));
/** The lease of a deliverer is shorter. */
const LEASE_MS = 5 * MOVABLE_TIMEOUT_MS;
const WINDOW_MS = 1_500;

/** Which part it is that a request brings; 0: none. */
const partIn = ({ body }: StandInRequest): number => PARTS.findIndex((part) => textIn(body) === part) + 1;

function textIn(body: StandInRequest["body"]): string {
  const { text, rich_message: rich } = body as {
    text?: string | { body: string };
    rich_message?: { markdown: string };
  };
  return rich?.markdown ?? (typeof text === "string" ? text : (text?.body ?? ""));
}

const CHATS = [
  { policy: "hold", chatId: 1, seen: [1, 2, 3], statuses: ["sent", "unknown", "sent"] },
  { policy: "resend", chatId: 2, seen: [1, 2, 2, 3], statuses: ["sent", "sent", "sent"] },
  { policy: "reserve_edit", chatId: 3, seen: [1, 2, 2, 3], statuses: ["sent", "sent", "sent"] },
] as const;

it("Telegram answers the second of three parts with 503, and the deliverer dies: the first is never sent again", async () => {
  expect(PARTS).toHaveLength(3);
  const telegram = await startTelegram();
  const is503 = { ok: false, error_code: 503, description: "Service Unavailable" };
  try {
    await withOutbox(
      async (outbox) => {
        const account = await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url });
        const posted: DeliveryId[][] = [];
        for (const { policy, chatId } of CHATS) {
          telegram.breaks({
            ...{ fault: { status: 503, body: is503 }, times: 1 },
            if: (request) => request.body["chat_id"] === chatId && partIn(request) === 2,
          });
          posted.push(await outbox.post(await outbox.conversation(account, { chat_id: chatId }), PARTS, policy));
        }
        await diesWith(outbox, { after: CHATS.length, count: CHATS.length, spacingMs: 1_000 });
        outbox.deliverer();
        await letTimePass(outbox.deps.db, 30_000);
        const seen = (chat: number) => telegram.requests.filter(({ body }) => body["chat_id"] === chat).map(partIn);
        for (const [index, { chatId, seen: wanted, statuses }] of CHATS.entries()) {
          expect(seen(chatId).filter((part) => part > 0)).toEqual(wanted);
          expect(await statusesOf(outbox, posted[index] ?? [])).toEqual(statuses);
          const all = statuses.includes("unknown" as never) ? [1, 3] : [1, 2, 3];
          const got = telegram.messages(chatId).map(({ text }) => PARTS.indexOf(text) + 1);
          expect(got).toEqual(all);
        }
        const held = { tenantId: DEFAULT_TENANT, deliveryId: posted[0]?.[1] as DeliveryId };
        expect(await resolveDelivery(outbox.deps.db, { ...held, how: "again" })).toBe(true);
        await letTimePass(outbox.deps.db, 2_000);
        expect(seen(1)).toEqual([1, 2, 3, 2]);
        expect(await statusesOf(outbox, posted[0] ?? [])).toEqual(["sent", "sent", "sent"]);
      },
      { movable: true },
    );
  } finally {
    await telegram.close();
  }
});

it.each(["lives", "dies with it"])(
  "WhatsApp answers the second of three parts with 503, and the deliverer %s: 1, 2, 2, 3, each once",
  async (what) => {
    const provider = await startWhatsApp();
    const is503 = { error: { message: "Service temporarily unavailable", type: "OAuthException", code: 999_999 } };
    provider.breaks({ fault: { status: 503, body: is503 }, times: 1, if: (request) => partIn(request) === 2 });
    try {
      await withOutbox(
        async (outbox) => {
          const { db } = outbox.deps;
          const { account, close } = await reachedBy(outbox, provider);
          const conversation = await outbox.conversation(account, { phone: "15550001" });
          await db.query("update conversations set last_inbound_at = clock_timestamp()");
          const posted = await outbox.post(conversation, PARTS, "reconcile");
          if (what !== "lives") await diesWith(outbox, { after: 1, count: 1, spacingMs: 6_000 });
          outbox.deliverer({ windowMs: WINDOW_MS });
          await letTimePass(db, 6_000);
          // Of others: without any receipt silence says nothing.
          await noteHeard(db, { tenantId: DEFAULT_TENANT, channelAccountId: account });
          // Looked for every 15 s; the clock may be moved while somebody looks, and what they find comes after that.
          await letTimePass(db, 90_000);
          expect(provider.requests.map(partIn)).toEqual([1, 2, 2, 3]);
          expect(provider.messages().map(({ text }) => PARTS.indexOf(text) + 1)).toEqual([1, 2, 3]);
          await until("all are told to have arrived", async () =>
            (await statusesOf(outbox, posted)).every((status) => status === "delivered"),
          );
          await close();
        },
        { movable: true },
      );
    } finally {
      await provider.close();
    }
  },
);

/** A deliverer is killed with so many answers in its hands, after so many that it wrote down; then its lease is over. */
async function diesWith(
  { url, deps: { db } }: Outbox,
  { after, count, spacingMs }: Readonly<{ after: number; count: number; spacingMs: number }>,
): Promise<void> {
  const child = startProcess([], {
    script: SCRIPT,
    env: {
      ...{ DATABASE_URL: url, POINT: "answered", HOW: "kill", TIMEOUT_MS: String(MOVABLE_TIMEOUT_MS) },
      ...{ AFTER: String(after), COUNT: String(count) },
    },
  });
  const sent = "select 1 from deliveries where status in ('sent', 'delivered')";
  await until("the first parts are sent", async () => (await db.query(sent)).rows.length === after);
  await moveClock(db, spacingMs);
  expect(await child.exited).toMatchObject({ signal: "SIGKILL" });
  await moveClock(db, LEASE_MS);
}

const statusesOf = async (outbox: Outbox, ids: readonly DeliveryId[]): Promise<string[]> =>
  (await Promise.all(ids.map(outbox.row))).map(({ status }) => status);
