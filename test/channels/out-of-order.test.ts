// A channel that is away, wants to be left alone for hours, refuses, or breaks: the agent isn't run again for it, what may pass is tried
// again, and what doesn't pass is kept for a person, who can send it again.
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it, vi } from "vitest";
import { letTimePass } from "../helpers/deliveries.js";
import { quietPort } from "../helpers/ports.js";
import { startProxy } from "../helpers/proxy.js";
import { type Reached, withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

type Row = Readonly<Record<string, unknown>>;

const LONG = `first ${"a".repeat(4_000)}\n\nsecond ${"b".repeat(4_000)}`;
let asked = 0;
/** Answers at length when it is asked to. */
const agent = new StateGraph(MessagesAnnotation)
  .addNode("model", ({ messages }) => {
    asked += 1;
    const text = messages.at(-1)?.text ?? "";
    return { messages: [new AIMessage(text === "at length" ? LONG : `you said ${text}`)] };
  })
  .addEdge(START, "model")
  .addEdge("model", END)
  .compile();
const OPTIONS = { graphs: { agent }, movable: true, pollMs: 50 };

const deliveries = async ({ ask }: Reached, query = ""): Promise<readonly Row[]> =>
  (await ask("GET", `/v1/deliveries${query}`)).json as readonly Row[];

const telegramSays = (code: number, description: string, parameters = {}) => ({
  status: code,
  body: { ok: false, error_code: code, description, parameters },
});
const to = (chatId: number) => (request: Readonly<{ path: string; body: Row }>) =>
  request.path.includes("/send") && request.body["chat_id"] === chatId;

it("a channel that is down for two minutes costs no second run: the run is a success, its answer is pending, then sent", async () => {
  await withTelegram(OPTIONS, async (t) => {
    const { telegram, ask, accountId, deps } = t;
    const port = await quietPort();
    const settings = { api_root: `http://127.0.0.1:${port}`, assistant_id: "agent" };
    expect((await ask("PATCH", `/v1/channel-accounts/${accountId}`, { settings })).status).toBe(200);
    asked = 0;
    await telegram.says("hello");
    const down = { status: "pending", error_code: "ECONNREFUSED", attempts: 0, next_at: expect.any(String) as string };
    await until("it was tried", async () => (await deliveries(t))[0]?.["error_code"]);
    const [before] = await deliveries(t);
    const run = async () =>
      (await ask("GET", `/threads/${String(before?.["thread_id"])}/runs/${String(before?.["run_id"])}`)).json;
    for (let minutes = 0; minutes < 2; minutes += 1) {
      await letTimePass(deps.db, 60_000);
      expect(await deliveries(t)).toMatchObject([down]);
      expect(await run()).toMatchObject({ status: "success" });
    }
    const proxy = await startProxy(telegram.url, port);
    await letTimePass(deps.db, 5 * 60_000);
    const { delivery_id: id, run_id } = before ?? {};
    expect(await deliveries(t)).toMatchObject([
      { delivery_id: id, run_id, status: "sent", attempts: 1, error_code: null },
    ]);
    expect(telegram.messages().map(({ text }) => text)).toEqual(["you said hello"]);
    expect(asked).toBe(1);
    await proxy.close();
  });
});

it("a wait of hours is kept to, and seen in the API: until when, and why", async () => {
  await withTelegram(OPTIONS, async (t) => {
    const { telegram, deps } = t;
    telegram.breaks({ fault: telegramSays(429, "Too Many Requests", { retry_after: 4 * 3_600 }), times: 1, if: to(1) });
    await telegram.says("hello");
    await until("it was told to wait", async () => (await deliveries(t))[0]?.["error_code"]);
    const { rows } = await deps.db.query<{ now: Date }>("select clock_timestamp() as now");
    const [waiting] = await deliveries(t);
    expect(waiting).toMatchObject({ status: "pending", error_code: "rate_limited", attempts: 0 });
    const forMs = new Date(String(waiting?.["next_at"])).getTime() - (rows[0]?.now.getTime() ?? 0);
    expect(forMs / 3_600_000).toBeCloseTo(4, 1);
    await letTimePass(deps.db, forMs - 30_000);
    expect(telegram.requests.filter(to(1))).toHaveLength(1);
    await letTimePass(deps.db, 40_000);
    expect(await deliveries(t)).toMatchObject([{ status: "sent", attempts: 1, error_code: null }]);
    expect(telegram.messages(1)).toHaveLength(1);
  });
});

it("a channel that says to wait for nothing isn't asked again at once, again and again", async () => {
  await withTelegram(OPTIONS, async (t) => {
    t.telegram.breaks({ fault: telegramSays(429, "Too Many Requests", { retry_after: 0 }), times: 3, if: to(1) });
    await t.telegram.says("hello");
    await until("it was told to wait", async () => (await deliveries(t)).length === 1);
    await letTimePass(t.deps.db, 10_000);
    const [row] = await deliveries(t);
    expect(row).toMatchObject({ status: "sent", attempts: 1 });
    const gaps = await gapsOf(t, String(row?.["delivery_id"]));
    expect(gaps).toHaveLength(3);
    for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(1_000);
  });
});

const REFUSALS = [
  { chatId: 1, fault: telegramSays(403, "Forbidden: bot was blocked by the user"), code: "blocked" },
  { chatId: 2, fault: telegramSays(400, "Bad Request: chat not found"), code: "chat_not_found" },
  { chatId: -3, threadId: 7, fault: telegramSays(400, "Bad Request: TOPIC_CLOSED"), code: "topic_closed" },
] as const;

it("blocked, chat not found, topic closed: it stops at once, says so, and what is left goes when the person writes again", async () => {
  await withTelegram(OPTIONS, async (t) => {
    const { telegram, ask, deps } = t;
    for (const { fault, chatId, ...place } of REFUSALS) {
      telegram.breaks({ fault, if: to(chatId) });
      await telegram.says("at length", { chatId, ...place });
    }
    const failed = async () => deliveries(t, "?status=failed");
    await until("all are refused", async () => (await failed()).length === REFUSALS.length);
    await letTimePass(deps.db, 3_600_000);
    const conversations = (await ask("GET", "/v1/conversations")).json as readonly Row[];
    const at = (chatId: number) =>
      conversations.find(({ address }) => (address as Row)["chat_id"] === chatId)?.["conversation_id"];
    const [lost, parked] = [await failed(), await deliveries(t, "?status=parked")];
    for (const { chatId, code } of REFUSALS) {
      const here = { conversation_id: at(chatId), error_code: code };
      expect(conversations).toContainEqual(
        expect.objectContaining({
          conversation_id: at(chatId),
          unreachable_code: code,
          unreachable_at: expect.any(String),
        }),
      );
      expect(lost).toContainEqual(expect.objectContaining({ ...here, part: 0 }));
      expect(parked).toContainEqual(expect.objectContaining({ ...here, part: 1 }));
      expect(telegram.requests.filter(to(chatId))).toHaveLength(1);
    }
    telegram.mends();
    for (const { chatId, fault: _, code: __, ...place } of REFUSALS) await telegram.says("back", { chatId, ...place });
    await until("all are answered", async () => (await deliveries(t)).length === 9);
    await letTimePass(deps.db, 60_000);
    for (const { chatId } of REFUSALS) {
      const texts = telegram.messages(chatId).map(({ text }) => text.slice(0, 8));
      expect(texts).toEqual(["second b", "you said"]);
    }
    expect((await ask("GET", "/v1/conversations")).json).toEqual(
      expect.arrayContaining([expect.objectContaining({ unreachable_code: null })]),
    );
    for (const { delivery_id: id } of lost) await ask("POST", `/v1/deliveries/${String(id)}/resolve`, { as: "again" });
    await letTimePass(deps.db, 60_000);
    for (const { chatId } of REFUSALS) expect(telegram.messages(chatId)).toHaveLength(3);
  });
});

it("a token that isn't valid pauses the channel, is reported once, and its messages are kept until somebody has looked", async () => {
  await withTelegram({ ...OPTIONS, deliverers: 0 }, async (t) => {
    const { telegram, ask, accountId, deps } = t;
    const errors = vi.spyOn(deps.log, "error");
    const reported = () => errors.mock.calls.filter(([, text]) => String(text).includes("refuses its account"));
    telegram.breaks({ fault: telegramSays(401, "Unauthorized") });
    for (const chatId of [1, 2, 3]) await telegram.says("hello", { chatId });
    await until("all are answered", async () => (await deliveries(t)).length === 3);
    const account = async () => (await ask("GET", `/v1/channel-accounts/${accountId}`)).json as Row;
    t.startDeliverer();
    await until("the channel is paused", async () => (await account())["status"] === "paused");
    await letTimePass(deps.db, 24 * 3_600_000);
    expect(await account()).toMatchObject({ paused_code: "unauthorized", paused_at: expect.any(String) as string });
    expect((await deliveries(t)).map(({ status }) => status)).toEqual(["pending", "pending", "pending"]);
    expect(reported()).toHaveLength(1);
    const tries = telegram.requests.filter(({ path }) => path.includes("/send")).length;
    expect(tries).toBeLessThanOrEqual(3);
    telegram.mends();
    await ask("PATCH", `/v1/channel-accounts/${accountId}`, { paused: false });
    await until("all have come", () => telegram.messages().length === 3);
    expect([1, 2, 3].map((chatId) => telegram.messages(chatId).length)).toEqual([1, 1, 1]);
    expect(reported()).toHaveLength(1);
  });
});

const BROKEN = [
  { name: "gateway", chatId: 1, fault: { status: 502, body: "<html>502 Bad Gateway</html>" } },
  { name: "reset", chatId: 2, fault: "cut_before" },
] as const;

it("502 and a reset where it is sent again: with growing pauses that differ, not for ever, and then by a person over the API", async () => {
  await withTelegram(OPTIONS, async (t) => {
    const { telegram, ask, deps } = t;
    for (const { name, chatId, fault } of BROKEN) {
      // Of their own: a channel that is out of order is left alone as a whole. What is written goes to the newest.
      const account = { ...telegram.account("agent", { on_unknown: "resend" }), name };
      expect((await ask("POST", "/v1/channel-accounts", account)).status).toBe(201);
      telegram.breaks({ fault, if: to(chatId) });
      await telegram.says("hello", { chatId });
    }
    const tried = async () => (await deliveries(t)).filter(({ error_code: code }) => code !== null);
    await until("both were tried", async () => (await tried()).length === BROKEN.length);
    await letTimePass(deps.db, 12 * 3_600_000);
    const dead = await deliveries(t, "?status=failed");
    expect(dead).toHaveLength(BROKEN.length);
    const gaps = await Promise.all(dead.map(({ delivery_id: id }) => gapsOf(t, String(id))));
    for (const each of gaps) {
      expect(each.length).toBe(11);
      // Doubled each time up to half an hour, of which at least half is kept to.
      each.forEach((gap, n) => expect(gap).toBeGreaterThanOrEqual(Math.min(1_800_000, 2_000 * 2 ** n) / 2));
      expect(Math.max(...each)).toBeLessThan(31 * 60_000);
    }
    expect(gaps[0]).not.toEqual(gaps[1]);
    telegram.mends();
    for (const { delivery_id: id } of dead) {
      const again = await ask("POST", `/v1/deliveries/${String(id)}/resolve`, { as: "again" });
      expect(again.status).toBe(200);
    }
    await letTimePass(deps.db, 3_600_000);
    for (const { chatId } of BROKEN) expect(telegram.messages(chatId)).toHaveLength(1);
  });
});

it("502 and a reset where nothing is sent twice: one try, then it is a person's, who sends it again over the API", async () => {
  await withTelegram(OPTIONS, async (t) => {
    const { telegram, ask, deps } = t;
    for (const { chatId, fault } of BROKEN) {
      telegram.breaks({ fault, if: to(chatId) });
      await telegram.says("hello", { chatId });
    }
    const unsure = async () => deliveries(t, "?status=unknown");
    await until("nobody knows of them", async () => (await unsure()).length === BROKEN.length);
    await letTimePass(deps.db, 12 * 3_600_000);
    expect((await unsure()).map(({ error_code: code }) => code).sort()).toEqual(["UND_ERR_SOCKET", "http_502"]);
    for (const { chatId } of BROKEN) expect(telegram.requests.filter(to(chatId))).toHaveLength(1);
    telegram.mends();
    for (const { delivery_id: id } of await unsure()) {
      await ask("POST", `/v1/deliveries/${String(id)}/resolve`, { as: "again" });
    }
    await letTimePass(deps.db, 60_000);
    for (const { chatId } of BROKEN) expect(telegram.messages(chatId)).toHaveLength(1);
  });
});

/** From each try of a message to the next, in ms. */
async function gapsOf({ deps }: Reached, id: string): Promise<number[]> {
  const { rows } = await deps.db.query<{ ms: number }>(
    `select extract(epoch from wire_started_at - lag(settled_at) over (order by wire_started_at))::float8 * 1000 as ms
    from delivery_attempts
    where delivery_id = $1
    order by wire_started_at`,
    [id],
  );
  return rows.slice(1).map(({ ms }) => ms);
}
