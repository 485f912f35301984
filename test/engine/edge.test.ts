// Graphs of mode "edge": nothing is stored while they run, they can't wait, and they are tried twice at most.
import { tool } from "@langchain/core/tools";
import { Annotation, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { noteKilled } from "../../src/runs/failures.js";
import { claimRuns } from "../../src/runs/claim.js";
import { durableTool, step, toolsNode } from "../../src/tools.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";
import { GO, runToEnd, toolAgent, toolTexts } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

const EDGE = { graph: { mode: "edge" } } as const;
const LOG = { input: { log: [] } };

const count = async ({ db }: TestEngine, table: string) =>
  (await db.db.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]?.n;

test("an edge run stores how it ended, and nothing before; the next run on its thread goes on from there", async () => {
  const seen: (number | undefined)[] = [];
  await withEngine(
    {
      graphs: {
        graph: stepsGraph(3, async () => {
          seen.push(await stored());
        }),
      },
      policies: EDGE,
    },
    async (t) => {
      engine = t;
      const { thread_id } = await t.client.threads.create();
      expect(await t.client.runs.wait(thread_id, "graph", LOG)).toEqual({ log: ["s1", "s2", "s3"] });
      expect(seen).toEqual([0, 0, 0]);
      expect(await count(t, "checkpoints")).toBe(1);
      const again = await t.client.runs.wait(thread_id, "graph", LOG);
      expect(again).toEqual({ log: ["s1", "s2", "s3", "s1", "s2", "s3"] });
      expect((await t.client.threads.get(thread_id)).status).toBe("idle");
    },
  );
});
let engine: TestEngine | undefined;
const stored = async () => engine && count(engine, "checkpoints");

test("an edge run that wants to wait for a person ends in error and says why; breakpoints are refused with 422", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) }, policies: EDGE }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const result = await t.client.runs.wait(thread_id, "graph", { ...LOG, raiseError: false });
    const message = expect.stringContaining('mode "edge" and can\'t wait: it calls interrupt()') as string;
    expect(result).toEqual({ __error__: { error: "EdgeWaitsError", message } });
    expect((await t.client.threads.get(thread_id)).status).toBe("error");
    const stop = t.client.runs.create(thread_id, "graph", { ...LOG, interruptBefore: ["act"] });
    await expect(stop).rejects.toThrow(/422.*interrupt_before/);
  });
});

test("an edge graph that is compiled to wait is refused when it is loaded", async () => {
  const waits = new StateGraph(Annotation.Root({}))
    .addNode("ask", () => interrupt("?"))
    .addEdge(START, "ask")
    .compile({ interruptBefore: ["ask"] });
  const start = withEngine({ graphs: { graph: waits }, policies: EDGE }, () => Promise.resolve());
  await expect(start).rejects.toThrow('graph "graph" has mode "edge" and can\'t wait: it is compiled with breakpoints');
});

test("an edge graph whose tools have effects is refused when it is loaded, and one that hides them when it calls them", async () => {
  const options = { name: "pay", description: "pays", schema: z.object({ n: z.number() }) };
  const paid: number[] = [];
  const toolOf = (effect: "none" | "local" | "remote") =>
    durableTool<{ n: number }>(async ({ n }) => `${effect} ${paid.push(n)}`, { ...options, effect });
  for (const node of [new ToolNode([toolOf("remote")]), toolsNode([toolOf("local")])]) {
    const start = withEngine({ graphs: { graph: toolAgent(node, []) }, policies: EDGE }, () => Promise.resolve());
    await expect(start).rejects.toThrow(
      /graph "graph" has mode "edge" and can't have effects: its tool "pay" has (remote|local) ones/,
    );
  }
  const hiding = new StateGraph(MessagesAnnotation)
    .addNode("pay", async () => void (await toolOf("remote").invoke({ n: 1 })))
    .addEdge(START, "pay")
    .compile();
  const look = new ToolNode([
    toolOf("none"),
    tool(async () => step("read", () => "read"), { ...options, name: "look" }),
  ]);
  const reading = toolAgent(look, [
    { name: "pay", args: { n: 1 } },
    { name: "look", args: { n: 2 } },
  ]);
  const graphs = { hiding, reading };
  const policies = { hiding: { mode: "edge" }, reading: { mode: "edge" } } as const;
  await withEngine({ graphs, policies }, async (t) => {
    const hidden = await runToEnd(t, { input: GO }, { graphId: "hiding" });
    const { rows } = await t.deps.db.query("select error_code from runs where run_id = $1", [hidden.runId]);
    expect([rows, paid]).toEqual([[{ error_code: "effect_refused" }], []]);
    const read = await runToEnd(t, { input: GO }, { graphId: "reading" });
    expect(read.status).toBe("success");
    expect(await toolTexts(t, read.threadId)).toEqual(["none 1", "read"]);
    expect(await count(t, "effects")).toBe(0);
  });
});

test("an edge run whose worker dies starts once again, from its input; after the second time a person decides", async () => {
  const entered: string[] = [];
  const graph = stepsGraph(1, (node) => entered.push(node));
  await withEngine({ graphs: { graph }, policies: EDGE, workers: 0 }, async (t) => {
    const die = async () => {
      const claim = { slots: 1, owner: "dead", graphIds: ["graph"], versions: ["1"] };
      const [run] = await claimRuns(t.db.db, { ...claim, leaseMs: 60_000 });
      await noteKilled(t.db.db, { ...run!, owner: "dead" });
      await until("the sweeper to find it", async () => (await t.sweep()) === 1);
    };
    const { thread_id } = await t.client.threads.create();
    const first = await t.client.runs.create(thread_id, "graph", LOG);
    await die();
    const worker = t.startWorker();
    expect(await t.client.runs.join(thread_id, first.run_id)).toEqual({ log: ["s1"] });
    await worker.stop();
    const second = await t.client.runs.create(thread_id, "graph", LOG);
    await die();
    await die();
    t.startWorker();
    const result = await t.client.runs.join(thread_id, second.run_id);
    expect(result).toMatchObject({ __error__: { error: "WorkerLostError" } });
    expect(entered).toEqual(["s1"]);
    const inbox = await t.app.request("/v1/runs?needs_attention=true");
    expect(await inbox.json()).toMatchObject([{ run_id: second.run_id }]);
  });
});
