// WhatsApp after six weeks, where every day what is old was forgotten: the window is shut, so what was promised is announced, and comes when
// the person asks for it; without a template it waits, and whoever runs this can see it.
import type { BaseMessage } from "@langchain/core/messages";
import { createAgent } from "langchain";
import { expect, inject, test } from "vitest";
import { createTestEngine, scriptedModel, startTelegram, startWhatsApp, type TestEngine } from "../../src/testing.js";
import { scheduleFollowup } from "../../src/tools.js";
import { until } from "../helpers/wait.js";

const DAY_MS = 86_400_000;
const TEMPLATE = { name: "followup_ready", language: "en_US", parameters: ["your renewal"] };

function promising() {
  const args = { about: "the renewal", instruction: "Ask for the new price", mode: "work", when: { in: "P6W" } };
  const reply = (messages: readonly BaseMessage[]) => {
    const last = messages.at(-1);
    if (last?.getType() === "tool") return { text: "I'll get back to you in six weeks." };
    if (last?.additional_kwargs["followup"] === true) return { text: "The new price is 90 EUR." };
    if (last?.text === "thanks") return { text: `You are welcome, after ${messages.length} messages.` };
    return { toolCalls: [{ name: "schedule_followup", args }] };
  };
  return createAgent({ model: scriptedModel([reply]), tools: [scheduleFollowup] });
}

async function withEngine(work: (engine: TestEngine) => Promise<void>): Promise<void> {
  const engine = await createTestEngine({
    graphs: { agent: promising() },
    databaseUrl: inject("databaseUrl"),
    retention: {
      checkpoints: { keepLatest: 1, olderThanMs: DAY_MS, outcomes: null, graphIds: null },
      runs: { olderThanMs: DAY_MS },
    },
  });
  try {
    await work(engine);
  } finally {
    await engine.close();
  }
}

/** Until the promise is due, with what was said grown old and forgotten. */
async function sixWeeks({ clock, client }: TestEngine): Promise<void> {
  const [thread] = await client.threads.search();
  const history = async () => (await client.threads.getHistory(thread?.thread_id ?? "")).length;
  expect(await history()).toBeGreaterThan(1);
  for (let weeks = 0; weeks < 6; weeks += 1) {
    await clock.advance("1w");
    if (weeks === 0) await until("old states are forgotten", async () => (await history()) === 1);
  }
}

const deliveries = async ({ fetch }: TestEngine) => {
  const response = await fetch(new Request("http://perdure.test/v1/deliveries"));
  const all = (await response.json()) as { source_kind: string; status: string; error_code: string | null }[];
  return all.map(({ source_kind, status, error_code }) => [source_kind, status, error_code]);
};

test("one template, and the tap brings the answer once; the reply goes on with the same thread", async () => {
  const whatsapp = await startWhatsApp();
  await withEngine(async (engine) => {
    await engine.connect(whatsapp, { assistant: "agent", settings: { template: TEMPLATE } });
    await whatsapp.says("What will the renewal cost?");
    await engine.idle();
    await sixWeeks(engine);
    const types = () => whatsapp.messages().map(({ type }) => type);
    expect(types()).toEqual(["text", "template"]);
    await whatsapp.presses("Show me");
    await engine.idle();
    expect(whatsapp.messages().map(({ text }) => text)).toEqual([
      "I'll get back to you in six weeks.",
      "followup_ready",
      "The new price is 90 EUR.",
    ]);
    await whatsapp.presses("Show me");
    await whatsapp.says("thanks");
    await engine.idle();
    expect(whatsapp.messages().slice(3)).toMatchObject([{ text: "You are welcome, after 6 messages." }]);
  });
  await whatsapp.close();
});

test("without a template it is parked, nothing goes anywhere else, and it is told why", async () => {
  const [whatsapp, telegram] = await Promise.all([startWhatsApp(), startTelegram()]);
  await withEngine(async (engine) => {
    await engine.connect(whatsapp, { assistant: "agent" });
    await engine.connect(telegram, { assistant: "agent" });
    await whatsapp.says("What will the renewal cost?");
    await engine.idle();
    await sixWeeks(engine);
    expect([whatsapp.messages().length, telegram.messages().length]).toEqual([1, 0]);
    const [newest, ...others] = await deliveries(engine);
    expect(newest).toEqual(["followup", "parked", expect.stringMatching(/window/)]);
    expect(others).toHaveLength(1);
    await whatsapp.says("thanks");
    await engine.idle();
    expect(whatsapp.messages().map(({ text }) => text)).toEqual([
      "I'll get back to you in six weeks.",
      "The new price is 90 EUR.",
      "You are welcome, after 6 messages.",
    ]);
  });
  await Promise.all([whatsapp.close(), telegram.close()]);
});
