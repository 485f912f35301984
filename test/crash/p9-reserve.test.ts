// P9 with `reserve_edit`: a place is taken with a short message, and the answer is put there by an edit, which may be repeated. Whatever
// happens to the deliverer or on the way, the person has the answer once; what may be there twice is the short message.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { Fault, StandInRequest } from "../../src/testing/channels/stand-in.js";
import { startTelegram, type TelegramStandIn } from "../../src/testing/channels/telegram.js";
import { type Outbox, TIMEOUT_MS, withOutbox } from "../helpers/deliveries.js";
import { startProcess } from "../helpers/processes.js";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
/** An answer in two parts. */
const TEXTS = ["first part", "second part"];
const PLACEHOLDER = "…";

const KILLS = ["claimed", "marked", "placed", "reserved", "answered", "settled"] as const;
/** All of them by `npm run test:soak`. */
const QUICK: readonly string[] = ["placed", "reserved", "answered"];
const DEATHS = [
  ...KILLS.map((point) => ["kill", point] as const),
  ...(["marked", "placed", "reserved"] as const).map((point) => ["stop", point] as const),
].filter(([how, point]) => (how === "kill" && QUICK.includes(point)) || size(0, 1) === 1);

it.each(DEATHS)("%s at %s: the answer once", async (how, point) => {
  await withBot(async (outbox, telegram, chat) => {
    const ids = await outbox.post(await chat(1), TEXTS, "reserve_edit");
    const env = { DATABASE_URL: outbox.url, POINT: point, HOW: how, TIMEOUT_MS: String(TIMEOUT_MS) };
    const child = startProcess([], { script: SCRIPT, env });
    if (how === "kill") await child.exited;
    else await until("it has it", async () => (await outbox.deps.db.query(MARKED)).rows.length);
    for (let n = 0; n < 2; n += 1) outbox.deliverer();
    if (how === "stop") setTimeout(() => child.signal("SIGCONT"), 5 * TIMEOUT_MS);
    await allSent(outbox, ids);
    await new Promise((resolve) => setTimeout(resolve, 2 * TIMEOUT_MS));
    await child.stop();
    expect(answers(telegram, 1)).toEqual(TEXTS);
    expect(strays(telegram, 1)).toBeLessThanOrEqual(1);
    for (const id of ids) expect((await outbox.row(id)).duplicate).toBe(false);
  });
});

const MARKED = "select 1 from delivery_attempts where wire_started_at is not null";

/** Which request goes wrong, and how: with a chat of its own for each. */
const FAULTS = (["/sendMessage", "/editMessageText"] as const).flatMap((path) =>
  (["cut_before", "cut_after", "hang", { status: 502, body: "<html>" }, limited()] as const).map(
    (fault: Fault) => [path, fault] as const,
  ),
);

function limited(): Fault {
  return { status: 429, body: { ok: false, error_code: 429, description: "wait", parameters: { retry_after: 0.2 } } };
}

it("whatever goes wrong on the way, the answer comes once", async () => {
  await withBot(async (outbox, telegram, chat) => {
    const ids: Awaited<ReturnType<Outbox["post"]>> = [];
    for (const [index, [path, fault]] of FAULTS.entries()) {
      const isIt = (request: StandInRequest) => request.path.endsWith(path) && request.body["chat_id"] === index + 1;
      telegram.breaks({ fault, times: 1, if: isIt });
      ids.push(...(await outbox.post(await chat(index + 1, path), TEXTS, "reserve_edit")));
    }
    outbox.deliverer();
    await allSent(outbox, ids);
    for (const [index] of FAULTS.entries()) {
      expect(answers(telegram, index + 1)).toEqual(TEXTS);
      expect(strays(telegram, index + 1)).toBeLessThanOrEqual(1);
    }
  });
});

it("where the person has deleted the short message, it gets another", async () => {
  await withBot(async (outbox, telegram, chat) => {
    const gone = { ok: false, error_code: 400, description: "Bad Request: message to edit not found" };
    telegram.breaks({
      fault: { status: 400, body: gone },
      times: 1,
      if: ({ path }) => path.endsWith("/editMessageText"),
    });
    const ids = await outbox.post(await chat(1), ["once"], "reserve_edit");
    outbox.deliverer();
    await allSent(outbox, ids);
    expect(answers(telegram, 1)).toEqual(["once"]);
  });
});

async function withBot(
  work: (
    outbox: Outbox,
    telegram: TelegramStandIn,
    /** Of accounts of their own, where what goes wrong with one must not be held against the other. */
    chat: (id: number, account?: string) => ReturnType<Outbox["conversation"]>,
  ) => Promise<void>,
): Promise<void> {
  const telegram = await startTelegram();
  try {
    await withOutbox(async (outbox) => {
      const accounts = new Map<string, Awaited<ReturnType<Outbox["account"]>>>();
      await work(outbox, telegram, async (id, name = "") => {
        const known = accounts.get(name);
        const account =
          known ?? (await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url }));
        accounts.set(name, account);
        return outbox.conversation(account, { chat_id: id });
      });
    });
  } finally {
    await telegram.close();
  }
}

async function allSent(outbox: Outbox, ids: Awaited<ReturnType<Outbox["post"]>>): Promise<void> {
  const isSent = async () => (await Promise.all(ids.map(outbox.row))).every(({ status }) => status === "sent");
  await until("all is sent", isSent, { timeoutMs: 60_000 });
}

const answers = (telegram: TelegramStandIn, chatId: number) =>
  telegram.messages(chatId).flatMap(({ text }) => (text === PLACEHOLDER ? [] : [text]));
const strays = (telegram: TelegramStandIn, chatId: number) =>
  telegram.messages(chatId).filter(({ text }) => text === PLACEHOLDER).length;
