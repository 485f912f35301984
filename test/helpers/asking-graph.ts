// A graph that asks a provider's model through the real SDK: `before`, then `ask`, then `after`.
import { ChatAnthropic } from "@langchain/anthropic";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

/** `enter` is called with each node's name as it starts. The SDK itself doesn't try again. */
export function askingGraph(url: string, enter: (node: string) => void = () => {}) {
  const model = new ChatAnthropic({
    model: "claude-stand-in",
    apiKey: "key",
    anthropicApiUrl: url,
    maxRetries: 0,
    maxTokens: 200,
  });
  return new StateGraph(MessagesAnnotation)
    .addNode("before", () => {
      enter("before");
      return {};
    })
    .addNode("ask", async ({ messages }) => {
      enter("ask");
      return { messages: [await model.invoke(messages)] };
    })
    .addNode("after", () => {
      enter("after");
      return {};
    })
    .addEdge(START, "before")
    .addEdge("before", "ask")
    .addEdge("ask", "after")
    .addEdge("after", END)
    .compile();
}

export const HELLO = { messages: [{ role: "user", content: "hello" }] };
