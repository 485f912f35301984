// The concierge as guests meet it: over a channel, with time going by.
import { expect, inject, test } from "vitest";
import { createTestEngine, startTelegram, type TelegramStandIn, type TestEngine } from "../../src/testing.js";
import { loadExample } from "./load.js";

async function withConcierge(work: (telegram: TelegramStandIn, engine: TestEngine) => Promise<void>): Promise<void> {
  process.env["RESTAURANT_MS"] = "0";
  const graphs = { concierge: await loadExample("concierge") };
  const [telegram, engine] = [
    await startTelegram(),
    await createTestEngine({ graphs, databaseUrl: inject("databaseUrl") }),
  ];
  try {
    await engine.connect(telegram, { assistant: "concierge" });
    await work(telegram, engine);
  } finally {
    await engine.close();
    await telegram.close();
  }
}

test("what takes minutes doesn't keep the guest waiting, and comes when it is known", async () => {
  await withConcierge(async (telegram, engine) => {
    await telegram.says("Can you get me a table at Da Mario?");
    await engine.idle();
    await engine.clock.advance("1m");
    expect(telegram.messages().map(({ text }) => text)).toEqual([
      expect.stringMatching(/^I'll get back to you here, on .* or a little later\.$/),
      "Da Mario has a table for two at 20:00. I have booked it for you.",
    ]);
  });
});

test("it gets back on the day it said, and not when the guest takes it back", async () => {
  await withConcierge(async (telegram, engine) => {
    const last = () => telegram.messages().at(-1)?.text;
    const says = async (text: string): Promise<void> => {
      await telegram.says(text);
      await engine.idle();
    };
    await says("Get back to me on Friday about breakfast");
    await says("Forget what you promised.");
    expect(last()).toBe("As you wish: you won't hear of it any more.");
    await says("Get back to me on Tuesday about the late check-out.");
    expect(last()).toMatch(/on Tue .*09:00/);
    const before = telegram.messages().length;
    await engine.clock.advance("8d");
    expect(last()).toBe("As promised: the late check-out is arranged.");
    expect(telegram.messages()).toHaveLength(before + 1);
  });
});
