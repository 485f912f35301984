// A model asks for three tools at once, one stock ToolNode makes the calls in one task, and a person is asked. Each part notes that
// it was entered, and can be held.
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { type Settings, work } from "./journal.js";

const act = tool(async ({ name }, config) => work(`tool ${name}`, config as Settings), {
  ...{ name: "act", description: "does one thing", schema: z.object({ name: z.string() }) },
});

const tool_calls = ["a", "b", "c"].map((name) => ({
  ...{ id: `call_${name}`, name: "act", args: { name }, type: "tool_call" as const },
}));

export const tooled = new StateGraph(MessagesAnnotation)
  .addNode("model", async (_, config) => {
    await work("model", config);
    return { messages: [new AIMessage({ content: "", tool_calls })] };
  })
  .addNode("tools", new ToolNode([act]))
  .addNode("gate", async (_, config) => {
    await work("gate", config);
    return { messages: [{ role: "assistant", content: `approved: ${String(interrupt("go on?"))}` }] };
  })
  .addEdge(START, "model")
  .addEdge("model", "tools")
  .addEdge("tools", "gate")
  .compile();
