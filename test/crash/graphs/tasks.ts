// A functional entrypoint of five tasks.
import { entrypoint, getConfig, task } from "@langchain/langgraph";
import { work } from "./journal.js";

const step = task("step", (name: string) => work(name, getConfig()));

export const tasks = entrypoint({ name: "tasks" }, async (_input: unknown) => {
  const log: string[] = [];
  for (let i = 1; i <= 5; i += 1) log.push(await step(`t${i}`));
  return { log };
});
