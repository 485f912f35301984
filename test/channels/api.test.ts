// Accounts and follow-ups over the API: made once for a key, never with their credentials in an answer, and refused by the place that is wrong.
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { withEngine } from "../helpers/engine.js";

const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", () => ({ messages: [new AIMessage("yes")] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

const ACCOUNT = {
  kind: "telegram",
  name: "bot",
  credentials: { token: "123:secret-of-the-bot" },
  settings: { assistant_id: "agent", mode: "polling", webhook_secret: "secret-of-the-hook" },
};

type Ask = (
  method: string,
  path: string,
  body?: unknown,
  key?: string,
) => Promise<{ status: number; json: never; text: string; replayed: string | null }>;

async function withApi(
  options: object,
  work: (ask: Ask, engine: Parameters<Parameters<typeof withEngine>[1]>[0]) => Promise<void>,
) {
  await withEngine({ graphs: { agent: graph }, ...options }, async (engine) => {
    const ask: Ask = async (method, path, body, key) => {
      const headers = {
        "content-type": "application/json",
        accept: "application/json",
        ...(key && { "idempotency-key": key }),
      };
      const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
      const response = await engine.app.fetch(new Request(`http://perdure.test${path}`, init));
      const text = await response.text();
      const json = (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : null) as never;
      return { status: response.status, text, json, replayed: response.headers.get("idempotent-replayed") };
    };
    await work(ask, engine);
  });
}

it("an account is made once for a key, and its credentials are in no answer and no row", async () => {
  const secretKey = "ab".repeat(32);
  await withApi({ secretKey }, async (ask, { deps: { db } }) => {
    const first = await ask("POST", "/v1/channel-accounts", ACCOUNT, "k1");
    expect(first.status).toBe(201);
    const again = await ask("POST", "/v1/channel-accounts", ACCOUNT, "k1");
    expect([again.status, again.replayed]).toEqual([200, "true"]);
    const list = await ask("GET", "/v1/channel-accounts");
    expect(list.json).toHaveLength(1);
    expect((await ask("POST", "/v1/channel-accounts", ACCOUNT)).status).toBe(409);
    expect([first.text, list.text].join()).not.toMatch(/secret-of/);
    const { rows } = await db.query("select credentials, settings from channel_accounts");
    expect(JSON.stringify(rows)).not.toMatch(/secret-of/);
    expect(Buffer.from((rows[0] as { credentials: Buffer }).credentials).toString("latin1")).not.toMatch(/secret-of/);
  });
});

it.each([
  ["an unknown kind", { kind: "pigeon" }, /kind: there is no channel .*pigeon.*telegram/],
  ["a token that is none", { credentials: { token: "x" } }, /credentials\.token/],
  ["no assistant", { settings: {} }, /settings\.assistant_id/],
])("refuses an account with %s", async (_, wrong, message) => {
  await withApi({ workers: 0 }, async (ask) => {
    const { status, text } = await ask("POST", "/v1/channel-accounts", { ...ACCOUNT, ...wrong });
    expect(status).toBe(422);
    expect(text).toMatch(message);
  });
});

it("a follow-up is made once for a key, listed, put off and cancelled; what can't be meant is refused", async () => {
  await withApi({}, async (ask, { client, fireTimers, deps: { db } }) => {
    const { thread_id: id } = await client.threads.create();
    const path = `/v1/threads/${id}/followups`;
    const body = { about: "it", instruction: "do it", mode: "remind", when: { in: "PT1H" } };
    expect((await ask("POST", path, body)).status).toBe(409);
    await client.runs.wait(id, "agent", { input: { messages: [{ role: "user", content: "hi" }] } });
    const first = await ask("POST", path, body, "k1");
    expect(first.status).toBe(201);
    const again = await ask("POST", path, body, "k1");
    expect([again.status, again.replayed]).toEqual([200, "true"]);
    const { followup_id: followupId } = first.json as { followup_id: string };
    for (const when of [{ in: "soon" }, { at: "2020-01-01T00:00:00" }, { in: "P500D" }]) {
      expect((await ask("POST", path, { ...body, when })).status).toBe(422);
    }
    const later = await ask("POST", `/v1/followups/${followupId}/reschedule`, { when: { in: "PT2H" } });
    expect(later.status).toBe(200);
    expect((await ask("GET", `/v1/followups?thread_id=${id}&status=pending`)).json).toHaveLength(1);
    const cancelled = await ask("POST", `/v1/followups/${followupId}/cancel`);
    expect(cancelled.json).toMatchObject({ status: "cancelled", outcome: "cancelled" });
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup' and status = 'due'");
    await fireTimers();
    expect((await ask("GET", `/v1/followups?thread_id=${id}`)).json).toMatchObject([
      { status: "cancelled", run_id: null },
    ]);
    expect((await ask("POST", `/v1/followups/${followupId}/reschedule`, { when: { in: "PT2H" } })).status).toBe(409);
  });
});

it("a reminder on a thread without a conversation is on the thread", async () => {
  await withApi({}, async (ask, { client, fireTimers, deps: { db } }) => {
    const { thread_id: id } = await client.threads.create();
    await client.runs.wait(id, "agent", { input: { messages: [{ role: "user", content: "hi" }] } });
    const body = { about: "it", instruction: "remember it", mode: "remind", when: { in: "PT1H" } };
    await ask("POST", `/v1/threads/${id}/followups`, body);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup' and status = 'due'");
    await fireTimers();
    const [told] = (await client.runs.list(id)).filter(({ metadata }) => metadata?.["followup_id"] !== undefined);
    await client.runs.join(id, told?.run_id ?? "");
    const { values } = await client.threads.getState<{ messages: { content: string }[] }>(id);
    expect(values.messages.map(({ content }) => content)).toEqual(["hi", "yes", "remember it"]);
    expect((await ask("GET", `/v1/followups?thread_id=${id}`)).json).toMatchObject([{ status: "produced" }]);
  });
});

it("an address is tied to a thread before anybody wrote there, and what is promised to it goes there", async () => {
  await withApi({}, async (ask, { fireTimers, client, deps: { db } }) => {
    const account = ((await ask("POST", "/v1/channel-accounts", ACCOUNT)).json as { channel_account_id: string })
      .channel_account_id;
    const put = (body: object) => ask("PUT", "/v1/conversations", { channel_account_id: account, ...body });
    type Conversation = { conversation_id: string; thread_id: string };
    const first = await put({ address: { chat_id: 7 }, time_zone: "Europe/Rome" });
    expect(first.status).toBe(201);
    const { conversation_id, thread_id } = first.json as Conversation;
    expect((await put({ address: { chat_id: 7 } })).json).toMatchObject({ thread_id, time_zone: "Europe/Rome" });
    // A second chat of the same person.
    const second = (await put({ address: { chat_id: 8 }, thread_id })).json as Conversation;
    expect(second.thread_id).toBe(thread_id);
    const path = `/v1/threads/${thread_id}/followups`;
    const body = { about: "it", instruction: "remember it", mode: "remind", when: { in: "PT1H" } };
    expect((await ask("POST", path, body)).status).toBe(409);
    const made = await ask("POST", path, { ...body, conversation_id });
    expect(made).toMatchObject({ status: 201, json: { conversation_id, time_zone: "Europe/Rome" } });
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup' and status = 'due'");
    await fireTimers();
    const [told] = await client.runs.list(thread_id);
    await client.runs.join(thread_id, told?.run_id ?? "");
    const { rows } = await db.query("select conversation_id from deliveries");
    expect(rows).toEqual([{ conversation_id }]);
  });
});

it("an address, a thread or a conversation that can't be meant is refused when it is named, not when it is due", async () => {
  await withApi({}, async (ask, { client }) => {
    const account = ((await ask("POST", "/v1/channel-accounts", ACCOUNT)).json as { channel_account_id: string })
      .channel_account_id;
    const put = (body: object) => ask("PUT", "/v1/conversations", { channel_account_id: account, ...body });
    const nowhere = "00000000-0000-4000-8000-000000000001";
    const refusals = [
      await put({ address: { chat: 7 } }),
      await put({ address: { chat_id: 7 }, time_zone: "Rome" }),
      await put({ address: { chat_id: 7 }, thread_id: nowhere }),
      await put({ address: { chat_id: 7 }, channel_account_id: nowhere }),
    ];
    expect(refusals.map(({ status }) => status)).toEqual([422, 422, 404, 404]);
    expect(refusals[0]?.text).toContain("address.chat_id");
    expect((await ask("GET", "/v1/conversations")).json).toEqual([]);
    const { conversation_id } = (await put({ address: { chat_id: 7 } })).json as { conversation_id: string };
    const { thread_id } = await client.threads.create();
    const body = { about: "it", instruction: "do it", mode: "remind", when: { in: "PT1H" }, conversation_id };
    const other = await ask("POST", `/v1/threads/${thread_id}/followups`, body);
    expect([other.status, other.text]).toEqual([422, expect.stringContaining("conversation_id")]);
    expect((await ask("GET", "/v1/followups")).json).toEqual([]);
  });
});
