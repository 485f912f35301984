// `store.index` of langgraph.json in processes of their own: the API embeds what is put and looked for, the worker what its graphs do.
import { expect, it } from "vitest";
import { createTestDatabase } from "../helpers/database.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject } from "./project.js";

const EMBEDDINGS = `
const about = (text: string, word: RegExp) => (word.test(text) ? 1 : 0);
export const embed = async (texts: string[]) =>
  texts.map((text) => [about(text, /tea|drink/), about(text, /jazz|music/), 0.1]);
`;
const GRAPH = `
import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ about: Annotation<string>, found: Annotation<string[]> });
export const graph = new StateGraph(State)
  .addNode("recall", async ({ about }, { store }) => {
    const found = await store.search(["facts"], { query: about, limit: 1 });
    await store.put(["facts"], "told", { text: about });
    return { found: found.map(({ key }) => key) };
  })
  .addEdge("__start__", "recall");
`;
const project = (embed: string) =>
  createProject({
    "langgraph.json": JSON.stringify({ graphs: { agent: "./graph.ts:graph" }, store: { index: { embed, dims: 3 } } }),
    "graph.ts": GRAPH,
    "embeddings.ts": EMBEDDINGS,
  });

async function send(method: string, url: string, body: object): Promise<unknown> {
  const response = await fetch(url, {
    ...{ method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.status === 204 ? null : response.json();
}

it("the API's process and the worker's find by meaning; a start without the embeddings says what is missing", async () => {
  const database = await createTestDatabase();
  const cwd = await project("./embeddings.ts:embed");
  const env = { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies`, PERDURE_POLL_MS: "100" };
  const api = startProcess(["api", "--port", "0"], { cwd, env: { ...env, PERDURE_LOG_LEVEL: "info" } });
  const worker = startProcess(["worker"], { cwd, env });
  try {
    const [, url = ""] = await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
    await until("the API is ready", async () => (await fetch(`${url}/ok`)).status === 200);
    for (const [key, text] of [
      ["1", "likes tea"],
      ["2", "likes jazz"],
    ] as const) {
      await send("PUT", `${url}/store/items`, { namespace: ["facts"], key, value: { text } });
    }
    const search = (query: string) =>
      send("POST", `${url}/store/items/search`, { namespace_prefix: ["facts"], query, limit: 2 });
    expect(await search("music")).toMatchObject({ items: [{ key: "2" }, { key: "1" }] });
    const run = { assistant_id: "agent", input: { about: "something to drink" } };
    expect(await send("POST", `${url}/runs/wait`, run)).toMatchObject({ found: ["1"] });
    expect(await search("drink")).toMatchObject({
      items: [{ score: expect.any(Number) }, { key: expect.any(String) }],
    });
    expect(JSON.stringify(await search("drink"))).toContain('"told"');
  } finally {
    expect(await Promise.all([api.stop(), worker.stop()])).toEqual([0, 0]);
  }
  const without = await runProcess(["worker"], { cwd: await project("openai:text-embedding-3-small"), env });
  expect(without.output).toContain('"store.index.embed" (openai:text-embedding-3-small) needs @langchain/openai');
  expect(without.code).toBe(2);
  await database.close();
});
