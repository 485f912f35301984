// A chat model without a network: it answers from a script, the same answer for the same conversation, and streams it
// word by word. SCRIPT_WORD_MS sets the pause between two words (default 10), so that a stream can be watched or cut.
import { setTimeout as sleep } from "node:timers/promises";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage, type UsageMetadata } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { logCall } from "./call-log.js";

/** What the model says next: some text, and the tools it wants called. */
export type Reply = Readonly<{
  text: string;
  toolCalls?: readonly Readonly<{ name: string; args: Readonly<Record<string, unknown>> }>[];
}>;

/** Decides the next reply from the conversation so far, and from nothing else. */
export type Script = (conversation: readonly BaseMessage[]) => Reply;

export class ScriptedModel extends BaseChatModel {
  /** `label` is what the calls of this model are called in the call log. */
  constructor(
    private readonly label: string,
    private readonly script: Script,
  ) {
    super({});
  }

  override _llmType(): string {
    return "scripted";
  }

  /** The script knows its tools already, so binding them changes nothing. */
  override bindTools(): this {
    return this;
  }

  override async _generate(
    conversation: BaseMessage[],
    options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    let answer: ChatGenerationChunk | undefined;
    for await (const chunk of this._streamResponseChunks(conversation, options, runManager)) {
      answer = answer === undefined ? chunk : answer.concat(chunk);
    }
    return { generations: answer === undefined ? [] : [answer] };
  }

  override async *_streamResponseChunks(
    conversation: BaseMessage[],
    options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const reply = this.script(conversation);
    const turn = conversation.length;
    const pauseMs = Number(process.env["SCRIPT_WORD_MS"] ?? 10);
    const words = reply.text.split(/(?<=\s)/);
    const answered = logCall(`${this.label} model, turn ${turn}`);
    for (const word of words) {
      await sleep(pauseMs, undefined, { signal: options.signal });
      const chunk = textChunk(word);
      yield chunk;
      await runManager?.handleLLMNewToken(word, undefined, undefined, undefined, undefined, { chunk });
    }
    answered();
    yield lastChunk(reply, `call_${conversation.at(-1)?.id ?? turn}`, usage(conversation, words.length));
  }
}

function textChunk(word: string): ChatGenerationChunk {
  return new ChatGenerationChunk({ text: word, message: new AIMessageChunk({ content: word }) });
}

/** The tool calls come last, whole. Their ids follow from the message that is answered: asked again, it makes the same. */
function lastChunk(reply: Reply, callId: string, usage_metadata: UsageMetadata): ChatGenerationChunk {
  const tool_call_chunks = (reply.toolCalls ?? []).map(({ name, args }, index) => ({
    type: "tool_call_chunk" as const,
    id: `${callId}_${index}`,
    index,
    name,
    args: JSON.stringify(args),
  }));
  return new ChatGenerationChunk({
    text: "",
    message: new AIMessageChunk({ content: "", tool_call_chunks, usage_metadata }),
  });
}

/** A word counts as a token; near enough for something to show. */
function usage(conversation: readonly BaseMessage[], output_tokens: number): UsageMetadata {
  const input_tokens = conversation.reduce((sum, message) => sum + message.text.split(/\s+/).length, 0);
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
}
