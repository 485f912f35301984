// What goes out: in order, at the pace of each chat, and what is refused holds up nobody else.
import { expect, it } from "vitest";
import { startTelegram, type TelegramStandIn } from "../../src/testing/channels/telegram.js";
import { type Outbox, withOutbox } from "../helpers/deliveries.js";
import { until } from "../helpers/wait.js";

async function withBot(
  work: (
    t: Outbox &
      Readonly<{
        telegram: TelegramStandIn;
        chat: (id: number) => Promise<Awaited<ReturnType<Outbox["conversation"]>>>;
      }>,
  ) => Promise<void>,
): Promise<void> {
  const telegram = await startTelegram();
  try {
    await withOutbox(async (outbox) => {
      const account = await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url });
      await work({ ...outbox, telegram, chat: (id) => outbox.conversation(account, { chat_id: id }) });
    });
  } finally {
    await telegram.close();
  }
}

const to = (chatId: number) => (request: Readonly<{ body: Readonly<Record<string, unknown>> }>) =>
  request.body["chat_id"] === chatId;
const limited = {
  status: 429,
  body: { ok: false, error_code: 429, description: "Too Many Requests", parameters: { retry_after: 2 } },
};

it("a chat that is told to wait keeps its order, spends no try, and holds up no other", async () => {
  await withBot(async ({ telegram, chat, post, row, deliverer }) => {
    telegram.breaks({ fault: limited, times: 1, if: to(1) });
    const [slow, other] = [await chat(1), await chat(2)];
    const texts = ["one", "two", "three"];
    const [first] = await post(slow, texts, "hold");
    await post(other, ["at once"], "hold");
    const begunMs = performance.now();
    deliverer();
    await until("the other chat has its message", () => telegram.messages(2).length === 1);
    expect(telegram.messages(1)).toEqual([]);
    await until("the slow one has all", () => telegram.messages(1).length === 3, { timeoutMs: 20_000 });
    expect(performance.now() - begunMs).toBeGreaterThan(2_000);
    expect(telegram.messages(1).map(({ text }) => text)).toEqual(texts);
    expect(first && (await row(first))).toMatchObject({ status: "sent", attempts: 1 });
  });
});

it("a part that is refused for good ends by itself: the parts before aren't sent again, those after go", async () => {
  await withBot(async ({ telegram, chat, post, row, deliverer }) => {
    const conversation = await chat(1);
    const tooLong = {
      status: 400,
      body: { ok: false, error_code: 400, description: "Bad Request: message is too long" },
    };
    const isTwo = (request: Readonly<{ body: Readonly<Record<string, unknown>> }>) =>
      JSON.stringify(request.body).includes("part two");
    telegram.breaks({ fault: tooLong, if: isTwo });
    const ids = await post(conversation, ["part one", "part two", "part three"], "hold");
    deliverer();
    await until("the last has come", () => telegram.messages(1).length === 2, { timeoutMs: 20_000 });
    expect(telegram.messages(1).map(({ text }) => text)).toEqual(["part one", "part three"]);
    const rows = await Promise.all(ids.map(row));
    expect(rows.map(({ status }) => status)).toEqual(["sent", "failed", "sent"]);
  });
});

it("a chat that blocks the bot gets nothing more until the person writes", async () => {
  await withBot(async ({ telegram, chat, post, row, deliverer }) => {
    const conversation = await chat(1);
    const blocked = {
      status: 403,
      body: { ok: false, error_code: 403, description: "Forbidden: bot was blocked by the user" },
    };
    telegram.breaks({ fault: blocked, if: to(1) });
    const [first, second] = await post(conversation, ["one", "two"], "hold");
    deliverer();
    await until("the second waits", async () => second !== undefined && (await row(second)).status === "parked");
    const [third] = await post(conversation, ["three"], "hold");
    expect(third && (await row(third)).status).toBe("parked");
    expect(first && (await row(first))).toMatchObject({ status: "failed", error_code: "blocked" });
    expect(telegram.requests.filter(to(1))).toHaveLength(1);
  });
});

it("a token that isn't valid pauses the account, once, at once, and keeps what is to be sent", async () => {
  await withBot(async ({ telegram, chat, post, row, deliverer, deps }) => {
    // Only once for each: what is sent again before somebody has looked would arrive.
    telegram.fails("unauthorized", 2);
    // Pausing takes a while, in which a deliverer looks for what to send.
    await deps.db.query(`create function slow() returns trigger language plpgsql as
      $$begin perform pg_sleep(0.5); return new; end$$`);
    await deps.db.query(`create trigger slow before update on channel_accounts for each row
      when (new.status = 'paused') execute function slow()`);
    const ids = [...(await post(await chat(1), ["one"], "hold")), ...(await post(await chat(2), ["two"], "hold"))];
    const loop = deliverer();
    const paused = async () =>
      (await deps.db.query("select 1 from channel_accounts where status = 'paused'")).rows.length;
    await until("the account is paused", async () => (await paused()) === 1);
    await loop.stop();
    expect((await Promise.all(ids.map(row))).map(({ status }) => status)).toEqual(["pending", "pending"]);
    expect(telegram.messages()).toEqual([]);
    telegram.mends();
    await deps.db.query("update channel_accounts set status = 'open', paused_at = null, paused_code = null");
    deliverer();
    await until("both have come", () => telegram.messages().length === 2, { timeoutMs: 20_000 });
  });
});

it("two deliverers send each of many once, whatever becomes of their order", async () => {
  await withBot(async ({ telegram, chat, post, deliverer }) => {
    const chats = Array.from({ length: 40 }, (_, index) => index + 1);
    for (const id of chats) await post(await chat(id), [`for ${id}`], "hold");
    deliverer();
    deliverer();
    await until("all have come", () => telegram.messages().length >= chats.length, { timeoutMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(
      telegram
        .messages()
        .map(({ text }) => text)
        .sort(),
    ).toEqual(chats.map((id) => `for ${id}`).sort());
  });
});

it("a channel that is out of order is left alone for a while, then tried with one message: what waits doesn't become unknown", async () => {
  await withBot(async ({ telegram, chat, post, deps, deliverer }) => {
    telegram.breaks({ fault: { status: 502, body: "<html>" } });
    for (let id = 1; id <= 60; id += 1) await post(await chat(id), [`for ${id}`], "hold");
    deliverer();
    const count = async (status: string) =>
      (await deps.db.query("select 1 from deliveries where status = $1", [status])).rows.length;
    const rests = async () =>
      (await deps.db.query("select 1 from channel_accounts where blocked_until > clock_timestamp()")).rows.length;
    await until("it rests", async () => (await rests()) === 1 && (await count("sending")) === 0);
    const lost = await count("unknown");
    // Those that were on their way when the fifth came back, and whoever took the place of the four before it.
    expect(lost).toBeLessThanOrEqual(20 + 4);
    expect(await count("pending")).toBe(60 - lost);
    const again = "update channel_accounts set blocked_until = clock_timestamp()";
    await deps.db.query(again);
    deps.notifier.notify("deliveries");
    await until("one more was tried", async () => (await count("unknown")) === lost + 1);
    await until("it rests again", rests);
    telegram.mends();
    await deps.db.query(again);
    deps.notifier.notify("deliveries");
    await until("the others go", async () => (await count("sent")) === 60 - lost - 1, { timeoutMs: 20_000 });
  });
});
