// A chat model without a provider that streams its answers word by word, tool calls last.
import { setTimeout as sleep } from "node:timers/promises";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

export type Answer = Readonly<{
  text: string;
  calls?: readonly Readonly<{ id: string; name: string; args: Record<string, unknown> }>[];
}>;

/** Answers by what the history holds, so that it may stop and go on anywhere. */
export class StreamingModel extends BaseChatModel {
  constructor(
    private readonly answer: (messages: readonly BaseMessage[]) => Answer,
    /** Between two words. */
    private readonly wordMs = 0,
  ) {
    super({});
  }

  override _llmType(): string {
    return "scripted-stream";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { text, calls = [] } = this.answer(messages);
    const tool_calls = calls.map((call) => ({ ...call, type: "tool_call" as const }));
    return { generations: [{ text, message: new AIMessage({ content: text, tool_calls }) }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { text, calls = [] } = this.answer(messages);
    const words = text.split(/(?<= )/).map((word) => new AIMessageChunk(word));
    const tool_call_chunks = calls.map(({ id, name, args }, index) => ({
      ...{ id, name, index, args: JSON.stringify(args) },
      type: "tool_call_chunk" as const,
    }));
    const last = calls.length === 0 ? [] : [new AIMessageChunk({ content: "", tool_call_chunks })];
    for (const message of [...words, ...last]) {
      const chunk = new ChatGenerationChunk({ text: message.text, message });
      if (this.wordMs > 0) await sleep(this.wordMs);
      yield chunk;
      await run?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}
