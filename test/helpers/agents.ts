// A ReAct agent without a provider: the model decides by what the history holds, so that it may stop and go on anywhere.
import { type CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, type AIMessageFields } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { createAgent } from "langchain";
import { z } from "zod";

export type ScriptedAgent = Readonly<{
  /** Turns with tool calls before the final answer. */
  rounds: number;
  /** Tool calls per turn. */
  parallel: number;
  answerChars?: number;
  resultChars?: number;
  onTool?: (query: string) => void;
  /** As `createAgent` takes it. */
  stateSchema?: unknown;
}>;

export function scriptedAgent(script: ScriptedAgent, checkpointer: unknown) {
  const lookup = tool(
    ({ q }: { q: string }) => {
      script.onTool?.(q);
      return text(script.resultChars ?? 3_000, `result of ${q} `);
    },
    { name: "lookup", description: "looks something up", schema: z.object({ q: z.string() }) },
  );
  return createAgent({
    model: new ScriptedModel(script),
    tools: [lookup],
    checkpointer: checkpointer as BaseCheckpointSaver,
    ...(script.stateSchema === undefined ? {} : { stateSchema: script.stateSchema as never }),
  }).graph;
}

class ScriptedModel extends BaseChatModel {
  constructor(private readonly script: ScriptedAgent) {
    super({});
  }
  override _llmType(): string {
    return "scripted";
  }
  override bindTools(): this {
    return this;
  }
  override _generate(messages: BaseMessage[], _options: unknown, _run?: CallbackManagerForLLMRun) {
    const turn = messages.filter((message) => message.getType() === "ai").length;
    const content = text(this.script.answerChars ?? 1_500, `turn ${turn} `);
    const calls = turn >= this.script.rounds ? 0 : this.script.parallel;
    const message = new AIMessage({
      content,
      tool_calls: Array.from({ length: calls }, (_, i) => ({
        name: "lookup",
        args: { q: `q${turn}.${i}` },
        id: `call_${turn}_${i}`,
        type: "tool_call" as const,
      })),
      usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    } as unknown as AIMessageFields); // its types leave out usage beside plain tool calls
    return Promise.resolve({ generations: [{ text: content, message }] });
  }
}

/** What the last message says comes back, with `re:` before it. */
export function echoAgent(checkpointer: unknown) {
  return createAgent({ model: new EchoModel({}), tools: [], checkpointer: checkpointer as BaseCheckpointSaver }).graph;
}

class EchoModel extends BaseChatModel {
  override _llmType(): string {
    return "echo";
  }
  override bindTools(): this {
    return this;
  }
  override _generate(messages: BaseMessage[]) {
    const content = `re:${String(messages.at(-1)?.content)}`;
    return Promise.resolve({ generations: [{ text: content, message: new AIMessage(content) }] });
  }
}

function text(chars: number, unit: string): string {
  return unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars);
}
