// The development chat: one talks over each channel, and nobody but this machine's browser can.
import { request } from "node:http";
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { apiAt } from "../../src/testing/chat/accounts.js";
import { type Chat, type ChatState, openChat } from "../../src/testing/chat/chat.js";
import { serveChat } from "../../src/testing/chat/server.js";
import { moveClock, openClock, readClock } from "../../src/testing/clock.js";
import { createTestDatabase } from "../helpers/database.js";
import { withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({ messages: [new AIMessage(`you said ${messages.at(-1)?.text}`)] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

/** Does each of them with a chat of its own, one after the other, on one API. */
async function withChats(...works: ((chat: Chat) => Promise<void>)[]): Promise<void> {
  await withTelegram({ graphs: { agent } }, async ({ url }) => {
    for (const work of works) {
      const chat = await openChat(apiAt(url), { now: () => Promise.resolve(new Date()), advance: null });
      try {
        await work(chat);
      } finally {
        await chat.close();
      }
    }
  });
}

const HERE = ["http://127.0.0.1:1"];
const bubbles = ({ rooms }: ChatState, kind: string) =>
  rooms.find((room) => room.kind === kind)?.bubbles.map(({ from, text }) => `${from}: ${text}`) ?? [];

test("one talks over each channel, and what comes next goes wrong as it is told to", { timeout: 60_000 }, async () => {
  const kinds = ["telegram", "whatsapp", "slack"];
  const talk = async (chat: Chat): Promise<void> => {
    for (const kind of kinds) await chat.act({ do: "say", kind, text: `hello ${kind}` });
    for (const kind of kinds) {
      await until(`an answer over ${kind}`, async () => bubbles(await chat.state(HERE), kind).length === 2);
      expect(bubbles(await chat.state(HERE), kind)).toEqual([`person: hello ${kind}`, `agent: you said hello ${kind}`]);
    }
  };
  const breaking = async (chat: Chat): Promise<void> => {
    await chat.act({ do: "trouble", kind: "telegram", trouble: "cut_after", times: 1 });
    await talk(chat);
    const unknown = async () => (await chat.state(HERE)).deliveries.filter(({ status }) => status === "unknown");
    await until("nobody knows what became of one", async () => (await unknown()).length === 1);
    await expect(chat.act({ do: "say", kind: "pigeon", text: "hello" })).rejects.toThrow('no channel "pigeon"');
    await expect(chat.act({ do: "advance", by: "1h" })).rejects.toThrow("--movable-clock");
  };
  // Nobody can write there: it is asked for, and mailed.
  const mailing = async (chat: Chat): Promise<void> => {
    await chat.act({ do: "say", kind: "email", text: "hello" });
    const { widget } = await chat.state(HERE);
    expect([(await fetch(widget?.src ?? "")).status, widget?.account]).toEqual([200, expect.any(String)]);
    await until("it is put off", async () => (await chat.state(HERE)).followups.length === 1);
  };
  // The second finds the accounts of the first, as after a new start.
  await withChats(breaking, talk, mailing);
});

test("nobody but this machine's browser is answered, on its own page", async () => {
  const state = { rooms: [] } as unknown as ChatState;
  const acted: unknown[] = [];
  const chat: Chat = {
    apiUrl: "http://127.0.0.1:2024",
    state: () => Promise.resolve(state),
    act: (action) => Promise.resolve(void acted.push(action)),
    close: () => Promise.resolve(),
  };
  const server = await serveChat(chat, 0);
  const { port, origin } = new URL(server.url);
  const ask = (path: string, headers: Record<string, string> = {}, body?: string) =>
    new Promise<{ status: number; policy: string }>((resolve, reject) => {
      const method = body === undefined ? "GET" : "POST";
      const asked = request({ host: "127.0.0.1", port, path, method, headers }, (response) => {
        response.resume();
        const policy = String(response.headers["content-security-policy"]);
        resolve({ status: response.statusCode ?? 0, policy });
      });
      asked.on("error", reject).end(body);
    });
  try {
    for (const path of ["/dev/chat", "/dev/chat/chat.js", "/dev/chat/chat.css", "/dev/chat/icon.svg"]) {
      expect(await ask(path)).toEqual({ status: 200, policy: expect.stringContaining("default-src 'self'") });
    }
    // A name that an attacker made lead here.
    expect(await ask("/dev/chat/state", { host: `evil.example:${port}` })).toMatchObject({ status: 403 });
    expect(await ask("/dev/chat/state", { origin: "http://evil.example" })).toMatchObject({ status: 403 });
    expect(await ask("/dev/chat/state", { origin: "null" })).toMatchObject({ status: 403 });
    expect(await ask("/dev/chat/../../package.json")).toMatchObject({ status: 404 });
    const say = JSON.stringify({ do: "say", kind: "slack", text: "hello" });
    const json = { "content-type": "application/json" };
    expect(await ask("/dev/chat/act", { ...json, origin: "http://evil.example" }, say)).toMatchObject({ status: 403 });
    expect(await ask("/dev/chat/act", { "content-type": "text/plain" }, say)).toMatchObject({ status: 415 });
    expect(await ask("/dev/chat/act", json, '{"do":"all"}')).toMatchObject({ status: 400 });
    expect(acted).toEqual([]);
    expect(await ask("/dev/chat/act", { ...json, origin }, say)).toMatchObject({ status: 200 });
    expect(acted).toEqual([{ do: "say", kind: "slack", text: "hello" }]);
  } finally {
    await server.close();
  }
});

test("a database gets a clock that moves when that is wanted, and keeps it", async () => {
  const database = await createTestDatabase();
  const log = createLog("silent");
  expect(await openClock(database.url, { wanted: false, log })).toBeNull();
  const url = (await openClock(database.url, { wanted: true, log })) ?? "";
  expect(await openClock(database.url, { wanted: false, log })).toBe(url);
  const db = openDb({ url, max: 1, log, applicationName: "test" });
  const before = await readClock(db);
  await moveClock(db, 3_600_000);
  expect((await readClock(db)).getTime() - before.getTime()).toBeGreaterThanOrEqual(3_600_000);
  await db.close();
  await database.close();
});
