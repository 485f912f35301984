// What users test agents with that people reach over channels: the stand-ins, and an engine that is connected with them.
import type { BaseMessage } from "@langchain/core/messages";
import { createAgent } from "langchain";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import {
  createTestEngine,
  scriptedModel,
  startSlack,
  startSmtp,
  startTelegram,
  startWebhookReceiver,
  startWhatsApp,
  type TestEngine,
} from "../../src/testing.js";
import { scheduleFollowup } from "../../src/tools.js";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createTestEngine({ graphs: { agent: promising() }, databaseUrl: inject("databaseUrl") });
});
afterAll(() => engine.close());

/** Promises to come back in six weeks, and does. */
function promising() {
  const args = { about: "the renewal", instruction: "Ask for the new price", mode: "work", when: { in: "P6W" } };
  const reply = (messages: readonly BaseMessage[]) => {
    const last = messages.at(-1);
    if (last?.getType() === "tool") return { text: "I'll get back to you in six weeks." };
    if (last?.additional_kwargs["followup"] === true) return { text: "The new price is 90 EUR." };
    if (last?.text === "hello") return { text: "Hello yourself." };
    return { toolCalls: [{ name: "schedule_followup", args }] };
  };
  return createAgent({ model: scriptedModel([reply]), tools: [scheduleFollowup] });
}

const asked = "What will the renewal cost?";
const answers = ["I'll get back to you in six weeks.", "The new price is 90 EUR."];

test("what an agent promises arrives six weeks later, once, in the chat where it was asked for", async () => {
  const telegram = await startTelegram();
  await engine.connect(telegram, { assistant: "agent" });
  await telegram.says(asked, { chatId: 7 });
  await engine.idle();
  await telegram.says("hello", { chatId: 8 });
  await engine.idle();
  await engine.clock.advance("41d");
  expect(telegram.messages(7).map(({ text }) => text)).toEqual([answers[0]]);
  await engine.clock.advance("1d");
  expect(telegram.messages(7).map(({ text }) => text)).toEqual(answers);
  expect(telegram.messages(8).map(({ text }) => text)).toEqual(["Hello yourself."]);
  await telegram.close();
});

test("Slack finds out what arrived before a line was cut, and says it once", async () => {
  const slack = await startSlack();
  await engine.connect(slack, { assistant: "agent" });
  slack.fails("cut_after");
  await slack.says("hello", { channel: "C7" });
  await engine.idle();
  await engine.clock.advance("5m");
  expect(slack.messages("C7").map(({ text }) => text)).toEqual(["Hello yourself."]);
  slack.fails("rate_limited", 2);
  await slack.says("hello", { channel: "C8" });
  await engine.idle();
  await engine.clock.advance("1m");
  expect(slack.messages("C8")).toHaveLength(1);
  await slack.close();
});

test("WhatsApp's window closes by the engine's clock, also for people who hide their number", async () => {
  const whatsapp = await startWhatsApp();
  await engine.connect(whatsapp, { assistant: "agent", settings: { template: { name: "ready", language: "en" } } });
  for (const person of ["15550007", "US.13491208655302741918"]) await whatsapp.says(asked, person);
  await engine.idle();
  await engine.clock.advance("6w");
  for (const person of ["15550007", "US.13491208655302741918"]) {
    expect(whatsapp.messages(person).map(({ type }) => type)).toEqual(["text", "template"]);
    await whatsapp.presses("Show me", person);
    await engine.idle();
    expect(whatsapp.messages(person).map(({ text }) => text)).toEqual([answers[0], "ready", answers[1]]);
  }
  await whatsapp.close();
});

test("all of them have one shape: an account, names of what may go wrong, and an end", async () => {
  const all = await Promise.all([startTelegram(), startWhatsApp(), startSlack(), startSmtp(), startWebhookReceiver()]);
  for (const standIn of all) {
    expect(standIn.troubles.length).toBeGreaterThan(4);
    expect(standIn.account("agent", { extra: 1 })).toMatchObject({
      ...{ kind: standIn.kind, settings: { assistant_id: "agent", extra: 1 } },
    });
    for (const trouble of standIn.troubles) (standIn.fails as (trouble: string) => void)(trouble);
    standIn.mends();
    await standIn.close();
  }
});
