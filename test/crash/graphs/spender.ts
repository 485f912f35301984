// Asks a provider's model, makes three calls in a stock ToolNode as if it had asked for them, and asks it again.
import { ChatAnthropic } from "@langchain/anthropic";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { type Settings, work } from "./journal.js";

const act = tool(async ({ name }, config) => work(`tool ${name}`, config as Settings), {
  ...{ name: "act", description: "does one thing", schema: z.object({ name: z.string() }) },
});

const tool_calls = ["a", "b", "c"].map((name) => ({
  ...{ id: `call_${name}`, name: "act", args: { name }, type: "tool_call" as const },
}));

async function ask(config: LangGraphRunnableConfig): Promise<AIMessage> {
  const anthropicApiUrl = String(config.configurable?.["provider"]);
  const model = new ChatAnthropic({ model: "stand-in", apiKey: "key", anthropicApiUrl, maxRetries: 0, maxTokens: 200 });
  return await model.invoke("go");
}

export const spender = new StateGraph(MessagesAnnotation)
  .addNode("plan", async (_, config) => {
    const { usage_metadata, response_metadata, content } = await ask(config);
    // LangChain's types take the empty object for the one without usage.
    const fields: object = { content, tool_calls, usage_metadata, response_metadata };
    return { messages: [new AIMessage(fields)] };
  })
  .addNode("tools", new ToolNode([act]))
  .addNode("sum", async (_, config) => ({ messages: [await ask(config)] }))
  .addEdge(START, "plan")
  .addEdge("plan", "tools")
  .addEdge("tools", "sum")
  .addEdge("sum", END)
  .compile();
