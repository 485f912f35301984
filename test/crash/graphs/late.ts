// A graph whose making kills the process the first time a run asks for it: claimed, and nothing done yet.
import { appendFileSync, existsSync } from "node:fs";
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { work, type Settings } from "./journal.js";

const State = Annotation.Root({ text: Annotation<string>(), seen: Annotation<unknown>() });

const graph = new StateGraph(State)
  .addNode("look", async ({ text }, config: LangGraphRunnableConfig) => {
    await work("look", config);
    const { configurable = {}, metadata = {}, tags = [] } = config;
    return { seen: { text, color: configurable["color"], owner: metadata["owner"], tags } };
  })
  .addEdge(START, "look")
  .addEdge("look", END)
  .compile();

export function late({ configurable }: Settings) {
  const journal = configurable?.["journal"];
  if (typeof journal === "string" && !existsSync(journal) && configurable?.["kill"] === true) {
    appendFileSync(journal, `killed ${process.pid}\n`);
    process.kill(process.pid, "SIGKILL");
  }
  return graph;
}
