// A graph that makes more than Postgres takes is made to wait: what waits to be stored doesn't fill the memory.
import { Annotation, END, entrypoint, START, StateGraph, task } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { beforeCommits } from "../helpers/commits.js";
import { withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

const TASKS = 40;
const CHARS = 900_000;

let started = 0;
const make = task("make", async (n: number) => {
  started += 1;
  return `${n} `.padEnd(CHARS, "x");
});
const makeAll = async ({ tasks }: { tasks: number }) => {
  for (let n = 0; n < tasks; n += 1) await make(n);
  return { tasks };
};
const State = Annotation.Root({ tasks: Annotation<number>() });
const graphs = {
  functional: entrypoint("functional", makeAll),
  nodes: new StateGraph(State).addNode("all", makeAll).addEdge(START, "all").addEdge("all", END).compile(),
};

test.each(["functional", "nodes"] as const)(
  "tasks whose results can't be stored yet stop after 16 MB, and go on when they are: %s",
  async (graph) => {
    await withEngine({ graphs, leaseMs: 20_000 }, async ({ client, deps }) => {
      // That the nodes of a graph call tasks is seen when the first does.
      await client.runs.wait(null, graph, { input: { tasks: 1 } });
      started = 0;
      let open = false;
      // The first commit is that of the input.
      beforeCommits(deps.db, () => until("Postgres takes it", () => open || started === 0).then(() => undefined));
      const run = client.runs.wait(null, graph, { input: { tasks: TASKS } });
      await until("the graph is made to wait", async () => {
        const before = started;
        await new Promise((resolve) => setTimeout(resolve, 300));
        // Before so many it may only have been slow.
        return before > 10 && started === before;
      });
      expect(started * CHARS).toBeLessThan(18_000_000);
      open = true;
      expect(await run).toEqual({ tasks: TASKS });
      expect(started).toBe(TASKS);
    });
  },
);
