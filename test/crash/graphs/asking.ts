// Asks a provider's model twice; the second call of a run that is told to be held takes long.
import { ChatAnthropic } from "@langchain/anthropic";
import { END, MessagesAnnotation, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { work } from "./journal.js";

async function ask({ messages }: typeof MessagesAnnotation.State, config: LangGraphRunnableConfig) {
  const anthropicApiUrl = String(config.configurable?.["provider"]);
  const model = new ChatAnthropic({ model: "stand-in", apiKey: "key", anthropicApiUrl, maxRetries: 0, maxTokens: 200 });
  return { messages: [await model.invoke(messages)] };
}

export const asking = new StateGraph(MessagesAnnotation)
  .addNode("first", ask)
  .addNode("between", async (_state: unknown, config: LangGraphRunnableConfig) => {
    await work("between", config);
    return {};
  })
  .addNode("second", ask)
  .addEdge(START, "first")
  .addEdge("first", "between")
  .addEdge("between", "second")
  .addEdge("second", END)
  .compile();
