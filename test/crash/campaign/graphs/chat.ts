// A conversation that many write to at a time. Its messages are only put one after the other, so that one that came twice is seen twice.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";

export type Said = Readonly<{ role: "human" | "ai"; content: string }>;

const Talk = Annotation.Root({
  messages: Annotation<Said[]>({ reducer: (before, more) => [...before, ...more], default: () => [] }),
});

const think = async (): Promise<object> => {
  await sleep(60);
  return {};
};

/** Answers whatever has no answer yet, a message for each. */
export const chat = new StateGraph(Talk)
  .addNode("read", think)
  .addNode("think", think)
  .addNode("answer", ({ messages }) => {
    const open = messages.slice(messages.findLastIndex(({ role }) => role === "ai") + 1);
    return { messages: open.map(({ content }): Said => ({ role: "ai", content })) };
  })
  .addEdge(START, "read")
  .addEdge("read", "think")
  .addEdge("think", "answer")
  .addEdge("answer", END)
  .compile();
