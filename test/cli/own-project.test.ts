// langgraph.json in full, as processes read it: packages, LANGGRAPH_CONFIG, routes of the project's own, webhooks to them, components.
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, it } from "vitest";
import { createTestDatabase } from "../helpers/database.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject, graphSource } from "./project.js";

const json = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});
const env = (databaseUrl: string, cwd: string) => ({
  DATABASE_URL: databaseUrl,
  PERDURE_BODIES: `file://${cwd}/bodies`,
  PERDURE_POLL_MS: "100",
});

const APP = `
import { Client } from "@langchain/langgraph-sdk";
import { Hono } from "hono";
let told: unknown[] = [];
export const app = new Hono()
  .use(async (c, next) => { await next(); c.header("x-mine", "yes"); })
  .get("/custom/run", async (c) => c.json(await new Client().runs.wait(null, "calls", { input: { n: 0 } })))
  .post("/custom/told", async (c) => { told.push(await c.req.json()); return c.text("thanks"); })
  .get("/custom/told", (c) => c.json(told));
`;
const CALLS = `
import { Client } from "@langchain/langgraph-sdk";
import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ n: Annotation<number> });
export const graph = new StateGraph(State)
  .addNode("ask", async () => await new Client().runs.wait(null, "agent", { input: { n: 0 } }) as { n: number })
  .addEdge("__start__", "ask");
`;
const project = () =>
  createProject({
    "calls.ts": CALLS,
    "app.ts": APP,
    "langgraph.json": JSON.stringify({
      graphs: { agent: "./graph.ts:graph", calls: "./calls.ts:graph" },
      http: { app: "./app.ts:app" },
      env: {
        LANGGRAPH_CONFIG: JSON.stringify({ agent: { configurable: { model: "small" }, context: { lang: "de" } } }),
      },
    }),
  });

it("a process serves the project's routes, and its graphs and routes call it back", async () => {
  const database = await createTestDatabase();
  const cwd = await project();
  const start = startProcess(["start", "--port", "0"], { cwd, env: env(database.url, cwd) });
  try {
    const [, url = ""] = await start.waitFor(/is ready at (\S+)/);
    const run = await fetch(`${url}/custom/run`);
    expect(await run.json()).toEqual({ n: 1 });
    expect(run.headers.get("x-mine")).toBe("yes");
    expect((await fetch(`${url}/info`)).headers.get("x-mine")).toBe("yes");
    const found = await fetch(`${url}/assistants/search`, json({ graph_id: "agent" }));
    expect(await found.json()).toMatchObject([
      { config: { configurable: { model: "small" } }, context: { lang: "de" } },
    ]);

    const body = { assistant_id: "agent", input: { n: 0 }, webhook: "/custom/told" };
    await fetch(`${url}/runs/wait`, json(body));
    await until("its end is told", async () => ((await (await fetch(`${url}/custom/told`)).json()) as []).length > 0);
    const refused = await fetch(`${url}/runs/wait`, json({ ...body, webhook: "/custom/nowhere" }));
    expect([refused.status, await refused.text()]).toEqual([422, expect.stringContaining("nothing takes a POST at")]);
  } finally {
    expect(await start.stop()).toBe(0);
    await database.close();
  }
});

it("a worker's graphs call an API that it has inside, and it tells webhooks where the API is", async () => {
  const database = await createTestDatabase();
  const cwd = await project();
  const api = startProcess(["api", "--port", "0"], {
    cwd,
    env: { ...env(database.url, cwd), PERDURE_LOG_LEVEL: "info" },
  });
  const [, url = ""] = await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
  const worker = startProcess(["worker", "--concurrency", "1"], {
    cwd,
    env: { ...env(database.url, cwd), PERDURE_API_URL: url, PERDURE_AUTH: "off" },
  });
  try {
    await until("the API is ready", async () => (await fetch(`${url}/ok`)).ok);
    const body = { assistant_id: "calls", input: { n: 0 }, webhook: "/custom/told" };
    expect(await (await fetch(`${url}/runs/wait`, json(body))).json()).toEqual({ n: 1 });
    const told = await until("its end is told", async () => {
      const all = (await (await fetch(`${url}/custom/told`)).json()) as object[];
      return all[0];
    });
    expect(told).toMatchObject({ status: "success", values: { n: 1 } });
  } finally {
    await Promise.all([api.stop(), worker.stop()]);
    await database.close();
  }
});

it("graphs come out of packages, as an import in the project would find them", async () => {
  const cwd = await createProject({
    "langgraph.json": JSON.stringify({
      graphs: { whole: "@acme/agents:graph", part: "@acme/agents/support:graph", none: "@acme/nothing:graph" },
    }),
  });
  const folder = path.join(cwd, "packages/node_modules/@acme/agents");
  await mkdir(folder, { recursive: true });
  const exports = { ".": { import: "./index.ts" }, "./support": "./lib/support.ts" };
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ name: "@acme/agents", type: "module", exports }));
  await writeFile(path.join(folder, "index.ts"), graphSource(1));
  await mkdir(path.join(folder, "lib"));
  await writeFile(path.join(folder, "lib/support.ts"), graphSource(2));
  const config = path.join(cwd, "packages/langgraph.json");
  const graphs = { whole: "@acme/agents:graph", part: "@acme/agents/support:graph" };
  await writeFile(config, JSON.stringify({ graphs: { ...graphs, none: "@acme/nothing:graph" } }));
  const refused = await runProcess(["graphs", "--config", config], { cwd });
  expect(refused.output).toContain('no package "@acme/nothing" is installed');
  expect(refused.code).toBe(2);

  await writeFile(config, JSON.stringify({ graphs }));
  const listed = await runProcess(["graphs", "--json", "--config", config], { cwd });
  const { graphs: found } = JSON.parse(listed.stdout) as { graphs: { id: string; version: string }[] };
  expect(found.map(({ id }) => id)).toEqual(["whole", "part"]);
  expect(new Set(found.map(({ version }) => version)).size).toBe(2);
});

it("LANGGRAPH_CONFIG that can't be meant, and apps that are none, end the start with what is wrong", async () => {
  const files = (json: object) =>
    createProject({ "app.ts": "export const app = 7;", "langgraph.json": JSON.stringify(json) });
  const graphs = { agent: "./graph.ts:graph" };
  const cwd = await files({ graphs, env: { LANGGRAPH_CONFIG: '{"agnet": {}}' } });
  const database = await createTestDatabase();
  const first = await runProcess(["start", "--port", "0"], { cwd, env: env(database.url, cwd) });
  expect([first.code, first.output]).toEqual([2, expect.stringContaining('did you mean "agent"?')]);
  const other = await files({ graphs, http: { app: "./app.ts:app" } });
  const second = await runProcess(["start", "--port", "0"], { cwd: other, env: env(database.url, other) });
  expect([second.code, second.output]).toEqual([
    2,
    expect.stringMatching(/http\.app \(.*app\.ts, export "app"\) is no app/),
  ]);
  await database.close();
});
