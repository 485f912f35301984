// Graphs that a factory makes: states are read and edited through the graph that the thread's newest run was made with.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Its one node is named by the configuration. */
function made({ configurable }: Readonly<{ configurable?: Readonly<Record<string, unknown>> }>) {
  const node = String(configurable?.["node"] ?? "plain");
  return new StateGraph(Log)
    .addNode(node, () => ({ log: [node] }))
    .addEdge(START, node)
    .addEdge(node, END)
    .compile();
}

test("an edit may be made as a node that only the thread's own graph has", () =>
  withEngine({ graphs: { made } }, async ({ client }) => {
    const { assistant_id } = await client.assistants.create({
      graphId: "made",
      config: { configurable: { node: "of_assistant" } },
    });
    const { thread_id } = await client.threads.create();
    expect(await client.runs.wait(thread_id, assistant_id, { input: {} })).toEqual({ log: ["of_assistant"] });
    await client.threads.updateState(thread_id, { values: { log: ["edited"] }, asNode: "of_assistant" });
    const config = { configurable: { node: "of_run" } };
    await client.runs.wait(thread_id, assistant_id, { input: {}, config });
    await client.threads.updateState(thread_id, { values: { log: ["again"] }, asNode: "of_run" });
    const refused = client.threads.updateState(thread_id, { values: { log: [] }, asNode: "of_assistant" });
    await expect(refused).rejects.toThrow(/HTTP 422: as_node/);
    const { values } = await client.threads.getState(thread_id);
    expect(values).toEqual({ log: ["of_assistant", "edited", "of_run", "again"] });
  }));
