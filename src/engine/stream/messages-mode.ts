// Mode "messages": no mode of LangGraph's own, but derived from its tokens and its states. Per message: its metadata once,
// the text so far with each token, and the whole message when the state holds it.
import { type BaseMessage, type BaseMessageChunk, isBaseMessage } from "@langchain/core/messages";
import { fieldsOf } from "./shapes.js";

export type MessagesMode = Readonly<{
  /** The events for one token. */
  token(chunk: BaseMessageChunk, metadata: unknown): readonly (readonly [event: string, data: unknown])[];
  /** The messages of a state that were in none before. */
  completed(state: unknown): readonly BaseMessage[];
}>;

export function createMessagesMode(): MessagesMode {
  const partial = new Map<string, BaseMessageChunk>();
  const complete = new Set<string>();
  return {
    token(chunk, metadata) {
      if (chunk.id === undefined) return [];
      const before = partial.get(chunk.id);
      const soFar = before === undefined ? chunk : before.concat(chunk);
      partial.set(chunk.id, soFar);
      const first = ["messages/metadata", { [chunk.id]: { metadata } }] as const;
      return [...(before === undefined ? [first] : []), ["messages/partial", [soFar]]];
    },
    completed(state) {
      const messages = fieldsOf(state)?.messages;
      const list: readonly unknown[] = Array.isArray(messages) ? messages : [messages];
      const fresh = list.filter(
        (message): message is BaseMessage & { id: string } =>
          isBaseMessage(message) && message.id !== undefined && !complete.has(message.id),
      );
      for (const { id } of fresh) {
        complete.add(id);
        partial.delete(id);
      }
      return fresh;
    },
  };
}

/** A piece of a model's answer, as opposed to a whole message. By what it can do: graphs may bring another copy of the library. */
export function isToken(message: unknown): message is BaseMessageChunk {
  if (!isBaseMessage(message) || !("concat" in message) || typeof message.concat !== "function") return false;
  // A node that returns a chunk as its result: LangGraph names it by its place in the output, and it is whole.
  return !/^run-.*-out-\d+$/.test(message.id ?? "");
}
