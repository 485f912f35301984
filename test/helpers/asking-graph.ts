// A graph that asks a provider's model through the real SDK: `before`, then `ask`, then `after`.
import { ChatAnthropic } from "@langchain/anthropic";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

/** The model is what `configurable.model` says, as with LangChain's configurable models. `enter` is called with each node's name as it starts. The SDK itself doesn't try again. */
export function askingGraph(url: string, enter: (node: string) => void = () => {}) {
  const models = (name: string) =>
    new ChatAnthropic({ model: name, apiKey: "key", anthropicApiUrl: url, maxRetries: 0, maxTokens: 200 });
  return new StateGraph(MessagesAnnotation)
    .addNode("before", () => {
      enter("before");
      return {};
    })
    .addNode("ask", async ({ messages }, config: LangGraphRunnableConfig) => {
      enter("ask");
      const model = models(String(config.configurable?.["model"] ?? "claude-stand-in"));
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
