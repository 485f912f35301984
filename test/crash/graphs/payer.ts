// Pays by a tool of the policy that its run names. It can be held before the payment, after it, and after its record.
import { readFileSync } from "node:fs";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod";
import { durableTool } from "../../../src/tools.js";
import { type Settings, work } from "./journal.js";

type OnUnknown = "ask" | "lookup" | "retry" | "fail";

function payBy(onUnknown: OnUnknown, settings: Settings) {
  return durableTool<{ cents: number }>(
    async (_, { key }) => {
      await work("request", settings);
      await work(`pay ${key}`, settings);
      await work("reply", settings);
      return `paid with ${key}`;
    },
    {
      name: "pay",
      description: "pays",
      schema: z.object({ cents: z.number() }),
      effect: "remote",
      onUnknown,
      lookup: onUnknown === "lookup" ? (_, { key }) => Promise.resolve(lookUp(key, settings)) : undefined,
    },
  );
}

/** What the other side says of a key. */
function lookUp(key: string, { configurable }: Settings) {
  const journal = readFileSync(String(configurable?.["journal"]), "utf8");
  return journal.includes(`leave pay ${key} `)
    ? ({ done: true, result: `paid with ${key}` } as const)
    : ({ done: false } as const);
}

export const payer = new StateGraph(MessagesAnnotation)
  .addNode("pay", async (_, config) => {
    const settings = config as Settings;
    const content = String(
      await payBy(settings.configurable?.["policy"] as OnUnknown, settings).invoke({ cents: 5 }, config),
    );
    await work("after", settings);
    return { messages: [{ role: "assistant", content }] };
  })
  .addEdge(START, "pay")
  .compile();
