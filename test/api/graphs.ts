// Graphs the API tests serve: small, scripted by their input, no model.
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Three steps; each adds its name to the log. */
export const steps = new StateGraph(Log)
  .addNode("one", () => ({ log: ["1"] }))
  .addNode("two", () => ({ log: ["2"] }))
  .addNode("three", () => ({ log: ["3"] }))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .addEdge("two", "three")
  .addEdge("three", END)
  .compile();

/** Asks before it goes on; the answer lands in the log. */
export const gate = new StateGraph(Log)
  .addNode("before", () => ({ log: ["before"] }))
  .addNode("ask", () => ({ log: [String(interrupt({ question: "go on?" }))] }))
  .addNode("after", () => ({ log: ["after"] }))
  .addEdge(START, "before")
  .addEdge("before", "ask")
  .addEdge("ask", "after")
  .addEdge("after", END)
  .compile();

/** The gate inside a subgraph. */
export const nested = new StateGraph(Log)
  .addNode("first", () => ({ log: ["first"] }))
  .addNode("inner", gate)
  .addEdge(START, "first")
  .addEdge("first", "inner")
  .addEdge("inner", END)
  .compile();

/** Answers with what it was told. */
export const echo = new StateGraph(MessagesAnnotation)
  .addNode("reply", ({ messages }) => ({ messages: [{ role: "ai", content: `you said: ${messages.at(-1)?.text}` }] }))
  .addEdge(START, "reply")
  .addEdge("reply", END)
  .compile();

/** A state with schemas that exist at run time. */
export const typed = new StateGraph(
  z.object({ city: z.string(), days: z.number().default(1) }),
  z.object({ units: z.enum(["metric", "imperial"]) }),
)
  .addNode("forecast", ({ city }) => ({ city: `${city}!` }))
  .addEdge(START, "forecast")
  .addEdge("forecast", END)
  .compile();

export const graphs = { steps, gate, nested, echo, typed };
