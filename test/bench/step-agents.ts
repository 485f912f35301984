// Agents for steps.ts: a model that writes 2 KB and calls tools that answer 20 KB, in words that compress as prose does.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { tool } from "@langchain/core/tools";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { createAgent } from "langchain";
import { z } from "zod";

export type AgentPlan = Readonly<{ graph: "react" | "agent" | "agent4"; steps: number }>;

const ANSWER_CHARS = 2_000;
const RESULT_CHARS = 20_000;

export function benchAgent(plan: AgentPlan, checkpointer: BaseCheckpointSaver) {
  const llm = new BenchModel(turnsOf(plan), parallelOf(plan));
  const lookup = tool(({ q }: { q: number }) => prose(RESULT_CHARS, q), {
    name: "lookup",
    description: "looks something up",
    schema: z.object({ q: z.number() }),
  });
  return plan.graph === "react"
    ? createReactAgent({ llm, tools: [lookup], checkpointSaver: checkpointer })
    : createAgent({ model: llm, tools: [lookup], checkpointer }).graph;
}

/** Characters of the texts of a whole run, each counted once. */
export function conversationBytes(plan: AgentPlan): number {
  const turns = turnsOf(plan);
  return (turns + 1) * ANSWER_CHARS + turns * parallelOf(plan) * RESULT_CHARS;
}

/** Turns with tool calls: each is a step of the model and one of the tools. */
function turnsOf({ steps }: AgentPlan): number {
  return Math.ceil(steps / 2);
}

function parallelOf({ graph }: AgentPlan): number {
  return graph === "agent4" ? 4 : 1;
}

class BenchModel extends BaseChatModel {
  constructor(
    private readonly turns: number,
    private readonly parallel: number,
  ) {
    super({});
  }
  override _llmType(): string {
    return "bench";
  }
  override bindTools(): this {
    return this;
  }
  override _generate(messages: BaseMessage[]) {
    // Not by counting: that would be a cost of its own at each step.
    const turn = Math.ceil((messages.length - 1) / (1 + this.parallel));
    const content = prose(ANSWER_CHARS, -1 - turn);
    const calls = turn >= this.turns ? 0 : this.parallel;
    const message = new AIMessage({
      content,
      tool_calls: Array.from({ length: calls }, (_, i) => ({
        name: "lookup",
        args: { q: turn * 10 + i },
        id: `call_${turn}_${i}`,
        type: "tool_call" as const,
      })),
    });
    return Promise.resolve({ generations: [{ text: content, message }] });
  }
}

const WORDS = Array.from({ length: 4_096 }, (_, i) => (Math.imul(i + 1, 2_654_435_761) >>> 8).toString(36));

/** Different for each seed, the same each time. */
function prose(chars: number, seed: number): string {
  let state = (Math.imul(seed, 2_654_435_761) ^ 0x9e3779b9) >>> 0;
  let text = "";
  while (text.length < chars) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    // Common words are common.
    const rank = Math.floor(WORDS.length * ((state >>> 8) / 2 ** 24) ** 3);
    text += `${WORDS[rank]} `;
  }
  return text.slice(0, chars);
}
