// Assistants as the stock client reads them, over a real port.
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ApiServer, serveApi } from "../../src/api/server.js";
import { systemAssistantId, upsertSystemAssistants } from "../../src/assistants/queries.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs, workers: 0 });
let server: ApiServer;
let client: Client;

beforeAll(async () => {
  server = await serveApi(shared().app, { port: 0 });
  client = new Client({ apiUrl: server.url, callerOptions: { maxRetries: 0 } });
});
afterAll(() => server.close());

test("every graph has the assistant whose id follows from its name", async () => {
  const assistant = await client.assistants.get("gate");
  expect(assistant).toMatchObject({
    assistant_id: systemAssistantId("gate"),
    graph_id: "gate",
    name: "gate",
    description: null,
    version: 1,
    pin: "latest",
    config: {},
    context: {},
    metadata: { created_by: "system" },
  });
  expect(await client.assistants.get(assistant.assistant_id)).toEqual(assistant);
  expect(new Date(assistant.created_at).getTime()).not.toBeNaN();
});

test("the id is the one that stock servers and clients derive", () => {
  expect(systemAssistantId("agent")).toBe("fe096781-5601-53d2-b2f6-0d3403f7e9ca");
});

test.each(["nobody", "00000000-0000-4000-8000-000000000000", "a/b", "x%00", "é|€"])(
  "%s is no assistant",
  async (name) => {
    await expect(client.assistants.get(name)).rejects.toThrow("HTTP 404: Assistant not found");
  },
);

describe("search", () => {
  test("finds by graph, by part of the name in any case, by metadata", async () => {
    const names = async (query: Parameters<Client["assistants"]["search"]>[0]) =>
      ((await client.assistants.search(query)) as { name: string }[]).map((one) => one.name).sort();
    expect(await names({})).toEqual(["echo", "gate", "nested", "steps", "typed"]);
    expect(await names({ graphId: "gate" })).toEqual(["gate"]);
    expect(await names({ name: "ST" })).toEqual(["nested", "steps"]);
    expect(await names({ metadata: { created_by: "system" }, limit: 2 })).toHaveLength(2);
    expect(await names({ metadata: { created_by: "me" } })).toEqual([]);
    expect(await client.assistants.count({ name: "st" })).toBe(2);
  });

  test("sorts, selects, and says where the next page starts", async () => {
    const select: "name"[] = ["name"];
    const page = { sortBy: "name", sortOrder: "asc", select, limit: 2, includePagination: true } as const;
    const first = await client.assistants.search(page);
    expect(first).toEqual({ assistants: [{ name: "echo" }, { name: "gate" }], next: "2" });
    const last = await client.assistants.search({ ...page, offset: 4 });
    expect(last).toEqual({ assistants: [{ name: "typed" }], next: null });
  });

  test("says how many there are in all", async () => {
    const response = await fetch(`${server.url}/assistants/search`, { method: "POST", body: '{"limit":2}' });
    expect(response.headers.get("x-pagination-total")).toBe("5");
    expect(response.headers.get("x-pagination-next")).toBe("2");
  });

  test("refuses an unknown sort by name", async () => {
    const response = await fetch(`${server.url}/assistants/search`, { method: "POST", body: '{"sort_by":"colour"}' });
    expect(response.status).toBe(422);
    expect(await response.text()).toContain("sort_by: ");
  });
});

describe("graph", () => {
  test("is nodes and edges", async () => {
    const graph = await client.assistants.getGraph("gate");
    expect(graph.nodes.map((node) => node.id)).toEqual(["__start__", "before", "ask", "after", "__end__"]);
    expect(graph.edges).toContainEqual(expect.objectContaining({ source: "before", target: "ask" }));
  });

  test("opens subgraphs when asked, all of them or down to a depth", async () => {
    const nodes = async (xray?: boolean | number) =>
      (await client.assistants.getGraph("nested", xray === undefined ? {} : { xray })).nodes.map((node) => node.id);
    expect(await nodes()).toContain("inner");
    expect(await nodes(false)).toContain("inner");
    expect(await nodes(true)).toContain("inner:ask");
    expect(await nodes(1)).toContain("inner:ask");
    const wrong = await fetch(`${server.url}/assistants/nested/graph?xray=deep`);
    expect([wrong.status, await wrong.text()]).toEqual([422, "xray: must be true, false or a depth"]);
  });
});

describe("schemas", () => {
  test("come from zod where the graph has it", async () => {
    const schemas = await client.assistants.getSchemas("typed");
    expect(schemas.graph_id).toBe("typed");
    expect(schemas.state_schema?.properties).toMatchObject({ city: { type: "string" }, days: { type: "number" } });
    expect(schemas.input_schema?.required ?? []).toEqual([]);
    expect(schemas.config_schema?.properties).toMatchObject({ units: { enum: ["metric", "imperial"] } });
    expect(schemas.context_schema).toEqual(schemas.config_schema);
  });

  test("name the channels where it was typed only in TypeScript", async () => {
    const schemas = await client.assistants.getSchemas("echo");
    expect(schemas.input_schema?.properties).toMatchObject({ messages: { langgraph_type: "messages" } });
    expect(schemas.config_schema).toBeNull();
  });

  test("of subgraphs are listed by namespace", async () => {
    const all = await client.assistants.getSubgraphs("nested", { recurse: true });
    expect(Object.keys(all)).toEqual(["inner"]);
    expect(all.inner).toMatchObject({ graph_id: "nested", state_schema: { properties: { log: {} } } });
    expect(await client.assistants.getSubgraphs("nested", { namespace: "inner" })).toEqual(all);
    expect(await client.assistants.getSubgraphs("nested", { namespace: "other" })).toEqual({});
  });
});

test("starting again changes nothing, another configuration changes the system assistants it is for", async () => {
  const { deps } = shared();
  const start = (settings: Readonly<Record<string, readonly string[]>>) =>
    upsertSystemAssistants(
      deps.db,
      DEFAULT_TENANT,
      Object.keys(graphs).map((graphId) => ({
        graphId,
        config: settings[graphId] === undefined ? {} : { tags: settings[graphId] },
        context: {},
      })),
    );
  expect(await start({})).toBe(0);
  expect(await start({ gate: ["x"] })).toBe(1);
  expect(await client.assistants.get("gate")).toMatchObject({ version: 2, config: { tags: ["x"] } });
  // What somebody has changed is theirs.
  await client.assistants.update("gate", { config: { tags: ["theirs"] } });
  expect(await start({ gate: ["y"], echo: ["y"] })).toBe(1);
  expect(await client.assistants.get("gate")).toMatchObject({ version: 3, config: { tags: ["theirs"] } });
});
