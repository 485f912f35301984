// A bot's chat: what is written there is answered there, once.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { expect, it } from "vitest";
import { z } from "zod";
import { approve } from "../../src/engine/approve.js";
import { scriptedModel } from "../../src/testing.js";
import { withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

const last = (messages: BaseMessage[]) => messages.at(-1)?.text ?? "";
const echo = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({
    messages: [new AIMessage(`you said **${last(messages)}** (${messages.length})`)],
  }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

it("a message is answered where it was written, and the conversation goes on", async () => {
  await withTelegram({ graphs: { agent: echo } }, async ({ telegram, texts, ask }) => {
    await telegram.says("hello", { chatId: 7 });
    expect(await texts(1, 7)).toEqual(["you said **hello** (1)"]);
    await telegram.says("again", { chatId: 7 });
    await telegram.says("elsewhere", { chatId: 8 });
    expect(await texts(2, 7)).toEqual(["you said **hello** (1)", "you said **again** (3)"]);
    expect(await texts(1, 8)).toEqual(["you said **elsewhere** (1)"]);
    await until("all are sent", async () => {
      const { json } = await ask("GET", "/v1/deliveries?status=sent");
      return (json as unknown[]).length === 3;
    });
  });
});

it("a webhook that comes twenty times at once is one run and one reply", async () => {
  await withTelegram({ graphs: { agent: echo } }, async ({ telegram, texts, deps: { db } }) => {
    const message = { message_id: 5, date: 0, from: { id: 1, first_name: "Ada" }, chat: { id: 9 }, text: "once" };
    const statuses = await Promise.all(Array.from({ length: 20 }, () => telegram.push({ update_id: 77, message })));
    expect(new Set(statuses)).toEqual(new Set([200]));
    await texts(1, 9);
    expect(await telegram.push({ update_id: 77, message })).toBe(200);
    await until(
      "nothing waits",
      async () => (await db.query("select 1 from deliveries where status <> 'sent'")).rows.length === 0,
    );
    expect(telegram.messages(9)).toHaveLength(1);
    expect((await db.query("select count(*)::int as n from runs")).rows).toEqual([{ n: 1 }]);
  });
});

it("a webhook without the secret stores nothing", async () => {
  await withTelegram({ graphs: { agent: echo } }, async ({ accountId, ask, deps: { db } }) => {
    const { status } = await ask("POST", `/v1/channels/${accountId}/webhook`, { update_id: 1 });
    expect(status).toBe(401);
    expect((await db.query("select 1 from inbound_events")).rows).toEqual([]);
  });
});

it("a bot without a webhook is polled", async () => {
  await withTelegram({ graphs: { agent: echo }, settings: { mode: "polling" } }, async ({ telegram, texts }) => {
    await telegram.says("polled", { chatId: 3 });
    expect(await texts(1, 3)).toEqual(["you said **polled** (1)"]);
  });
});

it("an approval is decided by the button, by the person who was asked, and once", async () => {
  let paid = 0;
  const pay = tool(() => `paid ${(paid += 1)}`, {
    name: "pay",
    description: "pays",
    schema: z.object({ amount: z.number() }),
  });
  const model = scriptedModel([{ toolCalls: [{ name: "pay", args: { amount: 5 } }] }, { text: "done" }]);
  const agent = createAgent({
    model,
    tools: [pay],
    middleware: [humanInTheLoopMiddleware({ interruptOn: { pay: true } } as never) as never],
  });
  await withTelegram({ graphs: { agent } }, async ({ telegram, texts }) => {
    await telegram.says("pay 5", { chatId: 4, userId: 40 });
    await texts(1, 4);
    const [question] = telegram.messages(4);
    expect(question?.buttons.map(({ text }) => text)).toEqual(["Approve", "Reject"]);
    await telegram.presses("Approve", { chatId: 4, userId: 41 });
    expect(paid).toBe(0);
    await telegram.presses("Approve", { chatId: 4, userId: 40 });
    expect((await texts(2, 4)).at(-1)).toBe("done");
    expect(paid).toBe(1);
  });
});

it("a question that no button answers is answered by what the person writes next", async () => {
  const asking = new StateGraph(MessagesAnnotation)
    .addNode("ask", () => ({ messages: [new AIMessage(`hello ${String(interrupt("What's your name?"))}`)] }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withTelegram({ graphs: { agent: asking } }, async ({ telegram, texts }) => {
    await telegram.says("hi", { chatId: 4 });
    expect(await texts(1, 4)).toEqual(["What's your name?"]);
    expect(telegram.messages(4)[0]?.buttons).toEqual([]);
    await telegram.says("Ada", { chatId: 4 });
    expect((await texts(2, 4)).at(-1)).toBe("hello Ada");
  });
});

it("a message that is refused while a question is open is said no to, and not brought again", async () => {
  const asking = new StateGraph(MessagesAnnotation)
    .addNode("ask", () => ({
      messages: [new AIMessage(approve({ question: "Pay?", onMessage: "refuse" }).approved ? "paid" : "not paid")],
    }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withTelegram({ graphs: { agent: asking } }, async ({ telegram, texts }) => {
    await telegram.says("pay", { chatId: 4 });
    await texts(1, 4);
    await telegram.says("and now?", { chatId: 4 });
    expect((await texts(2, 4)).at(-1)).toBe("There is a question to be answered first.");
    await telegram.presses("Approve", { chatId: 4 });
    expect((await texts(3, 4)).at(-1)).toBe("paid");
  });
});
