// An agent whose model calls three tools at once, then answers.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { createAgent } from "langchain";
import { z } from "zod";
import { work } from "./journal.js";

class ThreeCalls extends BaseChatModel {
  constructor() {
    super({});
  }
  _llmType(): string {
    return "three-calls";
  }
  override bindTools(): this {
    return this;
  }
  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const answered = messages.some((message) => message.getType() === "tool");
    const message = answered
      ? new AIMessage("done")
      : new AIMessage({
          content: "",
          tool_calls: ["a", "b", "c"].map((name, i) => ({ id: `call_${name}`, name: "act", args: { name, order: i } })),
        });
    return { generations: [{ text: String(message.content), message }] };
  }
}

// The tools finish one after the other, so that there is a moment after each.
const act = tool(
  async ({ name, order }, config) => {
    const stepMs = Number((config as { configurable?: Record<string, unknown> }).configurable?.["step_ms"] ?? 20);
    return work(`tool ${name}`, { configurable: { ...config.configurable, step_ms: stepMs * (order + 1) } });
  },
  { name: "act", description: "does one thing", schema: z.object({ name: z.string(), order: z.number() }) },
);

export const agent = createAgent({ model: new ThreeCalls(), tools: [act] });
