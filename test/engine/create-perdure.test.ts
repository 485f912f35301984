// An engine inside an application of one's own.
import { Annotation, StateGraph } from "@langchain/langgraph";
import { createPerdure } from "perdure";
import { describe, expect, it } from "vitest";
import { createEmptyDatabase, createTestDatabase } from "../helpers/database.js";

const State = Annotation.Root({ n: Annotation<number> });
const graph = new StateGraph(State).addNode("add", ({ n }) => ({ n: n + 1 })).addEdge("__start__", "add");

describe("createPerdure", () => {
  it("answers requests and executes runs in this process", async () => {
    const database = await createTestDatabase();
    const perdure = createPerdure({
      databaseUrl: database.url,
      bodies: "memory:",
      graphs: { graph },
      logLevel: "silent",
    });
    await perdure.start();
    const response = await perdure.fetch(
      new Request("http://app.test/runs/wait", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ assistant_id: "graph", input: { n: 1 } }),
      }),
    );
    expect(await response.json()).toEqual({ n: 2 });
    await perdure.stop();
    await database.close();
  });

  it("says what to do about a database that wasn't migrated", async () => {
    const database = await createEmptyDatabase();
    const perdure = createPerdure({
      databaseUrl: database.url,
      bodies: "memory:",
      graphs: { graph },
      logLevel: "silent",
    });
    await expect(perdure.start()).rejects.toThrow("Run `perdure migrate`");
    await perdure.stop();
    await database.close();
  });
});
