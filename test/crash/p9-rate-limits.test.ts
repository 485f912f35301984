// P9 where the channel says "later": who was told to wait does, through the death of the deliverer that heard it; then the messages come in
// their order. Nobody else is held up, no slot is held, and no try is spent.
// PERDURE_SOAK=1: by the clock on the wall.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { DeliveryId } from "../../src/core/ids.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";
import { letTimePass, MOVABLE_TIMEOUT_MS, type Outbox, withOutbox } from "../helpers/deliveries.js";
import { startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
const SOAK = process.env["PERDURE_SOAK"] === "1";
const TEXTS = ["one", "two", "three", "four", "five"];

/** Of the database, which decides. */
const pass = ({ deps }: Outbox, ms: number): Promise<unknown> =>
  SOAK ? new Promise((resolve) => setTimeout(resolve, ms)) : letTimePass(deps.db, ms);

/** When each try of a message was made, and was answered, in ms. */
async function triesOf({ deps }: Outbox, delivery: DeliveryId | undefined) {
  const { rows } = await deps.db.query<{ from: number; to: number }>(
    `select extract(epoch from wire_started_at)::float8 * 1000 as from, extract(epoch from settled_at)::float8 * 1000 as to
    from delivery_attempts
    where delivery_id = $1 and wire_started_at is not null
    order by claimed_at`,
    [delivery],
  );
  return rows;
}

it("told to wait for 30 s, a chat waits so long, though the deliverer is killed in second 10; then its five come in order, and another chat has its own at once", async () => {
  const telegram = await startTelegram();
  const limited = { ok: false, error_code: 429, description: "Too Many Requests", parameters: { retry_after: 30 } };
  telegram.breaks({ fault: { status: 429, body: limited }, times: 1, if: ({ body }) => body["chat_id"] === 1 });
  const got = (chatId: number) => telegram.messages(chatId).map(({ text }) => text);
  try {
    await withOutbox(
      async (outbox) => {
        const account = await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url });
        const [slow, other] = [
          await outbox.conversation(account, { chat_id: 1 }),
          await outbox.conversation(account, { chat_id: 2 }),
        ];
        const waiting = await outbox.post(slow, TEXTS, "hold");
        const free = await outbox.post(other, TEXTS, "hold");
        // One slot for all: who waits would hold it.
        const env = { DATABASE_URL: outbox.url, POINT: "none", CONCURRENCY: "1" };
        const first = startProcess([], { script: SCRIPT, env: { ...env, TIMEOUT_MS: String(MOVABLE_TIMEOUT_MS) } });
        await until("it was told to wait", async () => (await outbox.row(waiting[0] as DeliveryId)).error_code);
        await pass(outbox, 10_000);
        expect([got(1), got(2)]).toEqual([[], TEXTS]);
        await first.kill();
        const second = outbox.deliverer({ concurrency: 1 });
        await pass(outbox, 18_000);
        expect(got(1)).toEqual([]);
        await pass(outbox, 9_000);
        await until("the slow chat has all", () => got(1).length === TEXTS.length);
        await second.stop();
        expect([got(1), got(2)]).toEqual([TEXTS, TEXTS]);

        const [refused, taken, ...more] = await triesOf(outbox, waiting[0]);
        expect(more).toEqual([]);
        expect((taken?.from ?? 0) - (refused?.to ?? 0)).toBeGreaterThanOrEqual(30_000);
        const [begun, ended] = [await triesOf(outbox, free[0]), await triesOf(outbox, free.at(-1))];
        expect((ended[0]?.to ?? 0) - (begun[0]?.from ?? 0)).toBeLessThan(10_000);
        for (const delivery of [...waiting, ...free]) expect(await outbox.row(delivery)).toMatchObject(ONCE);
      },
      { movable: !SOAK },
    );
  } finally {
    await telegram.close();
  }
});

it("one person who has had too much at once on WhatsApp waits, and nobody else does", async () => {
  const provider = await startWhatsApp();
  const is = (phone: string) => (request: Readonly<{ body: Readonly<Record<string, unknown>> }>) =>
    request.body["to"] === phone;
  provider.breaks({ fault: PAIR_LIMITED, times: 1, if: is("1") });
  const got = (phone: string) => provider.messages(phone).map(({ text }) => text);
  try {
    await withOutbox(
      async (outbox) => {
        const credentials = { access_token: provider.accessToken, app_secret: provider.appSecret };
        const settings = { api_root: provider.url, phone_number_id: provider.phoneNumberId };
        const account = await outbox.account("whatsapp", credentials, settings);
        const [slow, other] = [
          await outbox.conversation(account, { phone: "1" }),
          await outbox.conversation(account, { phone: "2" }),
        ];
        await outbox.deps.db.query("update conversations set last_inbound_at = clock_timestamp()");
        const waiting = await outbox.post(slow, ["one", "two"], "reconcile");
        const free = await outbox.post(other, ["one", "two"], "reconcile");
        outbox.deliverer();
        await until("it was told to wait", async () => (await outbox.row(waiting[0] as DeliveryId)).error_code);
        await until("the other has the first", () => got("2").length === 1);
        expect(got("1")).toEqual([]);
        await pass(outbox, 13_000);
        expect([got("1"), got("2")]).toEqual([
          ["one", "two"],
          ["one", "two"],
        ]);
        const [refused, taken, ...more] = await triesOf(outbox, waiting[0]);
        expect(more).toEqual([]);
        expect((taken?.from ?? 0) - (refused?.to ?? 0)).toBeGreaterThanOrEqual(6_000);
        expect((await triesOf(outbox, free[0]))[0]?.to).toBeLessThan(taken?.from ?? 0);
        for (const delivery of [...waiting, ...free]) expect(await outbox.row(delivery)).toMatchObject(ONCE);
      },
      { movable: !SOAK },
    );
  } finally {
    await provider.close();
  }
});

/** No try was spent on what certainly didn't leave. */
const ONCE = { status: "sent", attempts: 1, error_code: null };
const PAIR_LIMITED = {
  status: 400,
  body: { error: { message: "Pair rate limit hit", type: "OAuthException", code: 131_056 } },
};
