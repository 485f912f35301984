// Graphs in graphs are as durable as the run's own: LangGraph runs them in its default mode unless it is told otherwise.
import { setTimeout as sleep } from "node:timers/promises";
import { tool } from "@langchain/core/tools";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { beforeCommits } from "../helpers/commits.js";
import { withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { GO, runToEnd, toolAgent } from "../helpers/tool-agent.js";

const WRITE_MS = 60;
const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const CALL = { name: "work", args: {} };

/** A graph of three steps inside of another, in each of the ways it can be there. */
function graphsWith(inner: ReturnType<typeof stepsGraph>) {
  const outer = () => new StateGraph(Log);
  const work = tool(async () => JSON.stringify(await inner.invoke({ log: [] })), {
    ...{ name: "work", description: "works", schema: z.object({}) },
  });
  return {
    node: outer().addNode("inner", inner).addEdge(START, "inner").compile(),
    called: outer()
      .addNode("inner", async () => ({ log: (await inner.invoke({ log: [] })).log }))
      .addEdge(START, "inner")
      .compile(),
    tool: toolAgent(new ToolNode([work]), [CALL]),
  };
}

const IDS = ["node", "called", "tool"] as const;

test.each(IDS)("a step of a graph in a graph begins when the one before it is stored (%s)", async (graphId) => {
  const seen: number[] = [];
  let stored = (): Promise<number> => Promise.resolve(0);
  const graphs = graphsWith(stepsGraph(3, async () => void seen.push(await stored())));
  await withEngine({ graphs }, async (engine) => {
    stored = async () => {
      const { rows } = await engine.db.db.query<{ step: number | null }>(
        "select max(step) as step from checkpoints where ns <> ''",
      );
      return rows[0]?.step ?? -1;
    };
    beforeCommits(engine.deps.db, () => sleep(WRITE_MS));
    const { status } = await runToEnd(engine, { input: graphId === "tool" ? GO : { log: [] } }, { graphId });
    expect(status).toBe("success");
    expect(seen).toEqual([0, 1, 2]);
  });
});

test("a graph in an edge graph stores nothing while it runs", async () => {
  const seen: number[] = [];
  let stored = (): Promise<number> => Promise.resolve(0);
  const graphs = graphsWith(stepsGraph(3, async () => void seen.push(await stored())));
  const policies = Object.fromEntries(IDS.map((id) => [id, { mode: "edge" as const }]));
  await withEngine({ graphs, policies }, async (engine) => {
    stored = async () => {
      const { rows } = await engine.db.db.query<{ n: number }>("select count(*)::int as n from checkpoints");
      return rows[0]?.n ?? 0;
    };
    for (const [i, graphId] of IDS.entries()) {
      seen.length = 0;
      const { status } = await runToEnd(engine, { input: graphId === "tool" ? GO : { log: [] } }, { graphId });
      expect(status).toBe("success");
      expect(seen, graphId).toEqual([i, i, i]);
      expect(await stored(), graphId).toBe(i + 1);
    }
  });
});
