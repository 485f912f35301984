// A chat model without a provider, which says what a test wrote down. What it says next follows from the conversation alone, so that
// a run may die, wait and go on anywhere.
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type AIMessageFields, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

/** What the model says, and what it wants called. */
export type Reply = Readonly<{
  text?: string;
  /** Without an id a call has one that follows from its place in the conversation. */
  toolCalls?: readonly Readonly<{ name: string; args: Readonly<Record<string, unknown>>; id?: string }>[];
  /** Tokens, as a provider would count them. */
  usage?: Readonly<{ input: number; output: number }>;
}>;

/** A reply, an error to throw instead, or a function that makes one; `asked` is how often it has been asked for this one before. */
export type Step = Reply | Error | ((messages: readonly BaseMessage[], asked: number) => Reply | Error);

/**
 * A model that answers from a script: its nth answer in a conversation is the nth step, the last step again after that.
 *
 * @example
 * const model = scriptedModel([{ toolCalls: [{ name: "pay", args: { amount: 5 } }] }, { text: "Paid." }]);
 * const agent = createAgent({ model, tools: [pay] });
 */
export function scriptedModel(steps: readonly Step[]): ScriptedModel {
  return new ScriptedModel(steps);
}

export class ScriptedModel extends BaseChatModel {
  private readonly asked: number[] = [];

  constructor(private readonly steps: readonly Step[]) {
    super({ maxRetries: 0 });
    if (steps.length === 0) throw new TypeError("scriptedModel: the script has no steps");
  }

  /** How often it was asked for anything. */
  get calls(): number {
    return this.asked.reduce((sum, n) => sum + n, 0);
  }

  override _llmType(): string {
    return "scripted";
  }

  /** The script knows its tools already. */
  override bindTools(): this {
    return this;
  }

  override _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const reply = this.next(messages);
    const text = reply.text ?? "";
    return Promise.resolve({ generations: [{ text, message: new AIMessage(fieldsOf(reply, messages)) }] });
  }

  /** Word by word; the tool calls come last, whole. */
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: unknown,
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const reply = this.next(messages);
    for (const word of (reply.text ?? "").split(/(?<=\s)/)) {
      const chunk = new ChatGenerationChunk({ text: word, message: new AIMessageChunk({ content: word }) });
      yield chunk;
      await run?.handleLLMNewToken(word, undefined, undefined, undefined, undefined, { chunk });
    }
    const { tool_calls, usage_metadata } = fieldsOf(reply, messages);
    const tool_call_chunks = (tool_calls ?? []).map(({ name, args, id }, index) => ({
      ...{ type: "tool_call_chunk" as const, index, name, args: JSON.stringify(args) },
      ...(id === undefined ? {} : { id }),
    }));
    const last = { content: "", tool_call_chunks, ...(usage_metadata === undefined ? {} : { usage_metadata }) };
    yield new ChatGenerationChunk({ text: "", message: new AIMessageChunk(last) });
  }

  private next(messages: readonly BaseMessage[]): Reply {
    const turn = messages.filter((message) => message.getType() === "ai").length;
    const place = Math.min(turn, this.steps.length - 1);
    const before = this.asked[place] ?? 0;
    this.asked[place] = before + 1;
    const step = this.steps[place] as Step;
    const reply = typeof step === "function" ? step(messages, before) : step;
    if (reply instanceof Error) throw reply;
    return reply;
  }
}

function fieldsOf(reply: Reply, messages: readonly BaseMessage[]) {
  const tool_calls = (reply.toolCalls ?? []).map(({ name, args, id }, i) => ({
    ...{ type: "tool_call" as const, name, args },
    id: id ?? `call_${messages.length}_${i}`,
  }));
  const { input, output } = reply.usage ?? { input: 0, output: 0 };
  const usage_metadata = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  const fields = { content: reply.text ?? "", tool_calls, ...(reply.usage === undefined ? {} : { usage_metadata }) };
  return fields as AIMessageFields & Pick<AIMessage, "tool_calls" | "usage_metadata">;
}
