// The chat by itself, without perdure: it streams its tokens and remembers the conversation.
import type { AIMessageChunk, BaseMessage } from "@langchain/core/messages";
import { beforeAll, expect, test } from "vitest";
import { type Graph, loadInMemory } from "./load.js";

let graph: Graph;
beforeAll(async () => {
  graph = await loadInMemory("chat");
});

const config = { configurable: { thread_id: "chat" } };
const say = (content: string) => ({ messages: [{ role: "user", content }] }) as never;

test("tokens stream one by one and add up to the answer; the next answer remembers", async () => {
  const tokens: string[] = [];
  for await (const part of await graph.stream(say("I am Ada"), { ...config, streamMode: "messages" })) {
    tokens.push((part as unknown as [AIMessageChunk, unknown])[0].text);
  }
  expect(tokens.length).toBeGreaterThan(5);
  expect(tokens.join("")).toBe('You said "I am Ada". That was the first thing you told me.');

  const { messages } = (await graph.invoke(say("Who am I?"), config)) as { messages: BaseMessage[] };
  expect(messages.at(-1)?.text).toBe('You said "Who am I?". Before that you told me "I am Ada".');
  expect(messages.at(-1)).toMatchObject({ usage_metadata: { output_tokens: expect.any(Number) } });
});
