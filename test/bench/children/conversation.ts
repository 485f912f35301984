// A conversation of any length without a provider: the model asks for tools, the tools answer, and so on. Every text is
// different and compresses about as prose does.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import type { BaseCheckpointSaver } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { createAgent } from "langchain";
import { z } from "zod";
import { nowMs } from "../measure/numbers.js";

const ANSWER_CHARS = 2_000;
const RESULT_CHARS = 20_000;

/** What is used of a graph here. */
type Graph = Readonly<{
  invoke(input: object, config: object): Promise<{ messages: readonly object[] }>;
  getState(config: object): Promise<{ values: { messages: readonly object[] } }>;
  getStateHistory(config: object, options: object): AsyncIterable<{ values: { messages?: readonly object[] } }>;
}>;

export type Conversation = Readonly<{
  graph(saver: BaseCheckpointSaver): Graph;
  input: Readonly<{ messages: readonly HumanMessage[] }>;
  /** When each turn of the model began. */
  turnsAtMs: readonly number[];
}>;

/** `rounds` turns with `tools` calls each: two supersteps a round. The last turn has none. */
export function conversation(
  of: Readonly<{ agent: "react" | "createAgent"; rounds: number; tools: number }>,
): Conversation {
  const turnsAtMs: number[] = [];
  const lookup = tool(({ q }: { q: string }) => prose(RESULT_CHARS, hashOf(q)), {
    name: "lookup",
    description: "looks something up",
    schema: z.object({ q: z.string() }),
  });
  const model = new ScriptedModel(of.rounds, of.tools, turnsAtMs);
  return {
    turnsAtMs,
    input: { messages: [new HumanMessage("Look into everything, please.")] },
    graph: (saver) =>
      of.agent === "react"
        ? createReactAgent({ llm: model, tools: [lookup], checkpointSaver: saver })
        : createAgent({ model, tools: [lookup], checkpointer: saver }).graph,
  };
}

class ScriptedModel extends BaseChatModel {
  private turn = 0;

  constructor(
    private readonly rounds: number,
    private readonly tools: number,
    private readonly turnsAtMs: number[],
  ) {
    super({});
  }
  override _llmType(): string {
    return "scripted";
  }
  override bindTools(): this {
    return this;
  }
  override _generate(_messages: BaseMessage[]) {
    if (this.turn < this.rounds) this.turnsAtMs.push(nowMs());
    const turn = this.turn++;
    const calls = turn < this.rounds ? this.tools : 0;
    const message = new AIMessage({
      content: prose(ANSWER_CHARS, turn + 1),
      tool_calls: Array.from({ length: calls }, (_, i) => ({
        ...{ name: "lookup", args: { q: `${turn}.${i}` } },
        ...{ id: `call_${turn}_${i}`, type: "tool_call" as const },
      })),
    });
    return Promise.resolve({ generations: [{ text: "", message }] });
  }
}

const WORDS = (
  "the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they you " +
  "were their one all we can her has there been if more when will would who so no order customer invoice delivery refund " +
  "account question answer because before after again other another where while should could every between during without"
).split(" ");

/** Text made of words, the same for the same seed. */
export function prose(chars: number, seed: number): string {
  const words: string[] = [];
  let state = seed * 2_654_435_761 + 1;
  for (let length = 0; length < chars; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    // Now and then something that no other text has, as names and numbers are.
    const word = state % 7 === 0 ? state.toString(36) : (WORDS[(state >>> 8) % WORDS.length] ?? "");
    words.push(word);
    length += word.length + 1;
  }
  return words.join(" ").slice(0, chars);
}

function hashOf(text: string): number {
  return [...text].reduce((hash, char) => (Math.imul(hash, 31) + char.charCodeAt(0)) >>> 0, 7);
}
