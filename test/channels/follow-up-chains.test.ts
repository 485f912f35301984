// An agent that schedules itself for ever stops somewhere, and whoever looks can see where and why.
import type { BaseMessage } from "@langchain/core/messages";
import { createAgent } from "langchain";
import { expect, inject, test } from "vitest";
import { createTestEngine, scriptedModel, startTelegram } from "../../src/testing.js";
import { scheduleFollowup } from "../../src/tools.js";

const args = { about: "it", instruction: "Check it again", mode: "work", when: { in: "P1D" } };

/** Whatever it is asked, it promises to look again tomorrow, and says what came of that. */
const restless = createAgent({
  model: scriptedModel([
    (messages: readonly BaseMessage[]) => {
      const last = messages.at(-1);
      if (last?.getType() === "tool") return { text: last.text.includes('"error"') ? last.text : "Tomorrow again." };
      return { toolCalls: [{ name: "schedule_followup", args }] };
    },
  ]),
  tools: [scheduleFollowup],
});

test("a chain of follow-ups ends at its limit, and goes on when the person writes", async () => {
  const telegram = await startTelegram();
  const engine = await createTestEngine({ graphs: { agent: restless }, databaseUrl: inject("databaseUrl") });
  try {
    await engine.connect(telegram, { assistant: "agent" });
    await telegram.says("check it", { chatId: 7 });
    await engine.idle();
    for (let days = 0; days < 6; days += 1) await engine.clock.advance("1d");
    const texts = telegram.messages(7).map(({ text }) => text);
    expect(texts.slice(0, -1)).toEqual(["Tomorrow again.", "Tomorrow again.", "Tomorrow again."]);
    expect(texts.at(-1)).toContain("3 times in a row");
    const followups = async () =>
      (await (await engine.fetch(new Request("http://perdure.test/v1/followups"))).json()) as { depth: number }[];
    expect((await followups()).map(({ depth }) => depth)).toEqual([3, 2, 1]);
    await telegram.says("and now?", { chatId: 7 });
    await engine.idle();
    expect((await followups()).map(({ depth }) => depth)).toEqual([1, 3, 2, 1]);
  } finally {
    await engine.close();
    await telegram.close();
  }
});
