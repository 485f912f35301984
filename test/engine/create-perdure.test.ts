// An engine inside an application of one's own.
import { Annotation, StateGraph } from "@langchain/langgraph";
import { Auth } from "@langchain/langgraph-sdk/auth";
import { createPerdure } from "perdure";
import { describe, expect, it } from "vitest";
import { createEmptyDatabase, createTestDatabase } from "../helpers/database.js";

const State = Annotation.Root({ n: Annotation<number> });
const graph = new StateGraph(State).addNode("add", ({ n }) => ({ n: n + 1 })).addEdge("__start__", "add");

describe("createPerdure", () => {
  it("answers requests and executes runs in this process, in the version it is said to be", async () => {
    const database = await createTestDatabase();
    const perdure = createPerdure({
      databaseUrl: database.url,
      bodies: "memory:",
      graphs: { graph },
      logLevel: "silent",
      version: "2026.11.30",
      auth: "open",
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
    const { rows } = await database.db.query("select agent_version from runs");
    expect(rows).toEqual([{ agent_version: "2026.11.30" }]);
    await perdure.stop();
    await database.close();
  });

  it("lets nobody in unless it is told whom", async () => {
    const database = await createTestDatabase();
    const options = { databaseUrl: database.url, bodies: "memory:", graphs: { graph }, logLevel: "silent" } as const;
    const auth = new Auth().authenticate((request) => request.headers.get("x-name") ?? "");
    const [shut, asking] = [createPerdure({ ...options, loops: [] }), createPerdure({ ...options, loops: [], auth })];
    const post = async (perdure: typeof shut, headers: Record<string, string> = {}) => {
      const request = new Request("http://app.test/threads", { method: "POST", headers, body: "{}" });
      return (await perdure.fetch(request)).status;
    };
    expect([await post(shut), await post(shut, { "x-name": "ana" })]).toEqual([401, 401]);
    expect(await post(asking, { "x-name": "ana" })).toBe(200);
    const wrong = createPerdure({ ...options, auth: {} as never });
    await expect(wrong.start()).rejects.toThrow("auth is no Auth");
    await Promise.all([shut.stop(), asking.stop()]);
    await database.close();
  });

  it("refuses a version that an assistant couldn't be pinned to", async () => {
    const options = { databaseUrl: "postgres://nobody@127.0.0.1:9/none", bodies: "memory:", graphs: { graph } };
    const perdure = createPerdure({ ...options, version: "own" });
    await expect(perdure.start()).rejects.toThrow('version: "own" is not the name of a version');
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
