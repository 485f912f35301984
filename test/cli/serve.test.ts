// `api`, `worker` and `start` as processes: they start without a database and wait for it, refuse one that isn't
// migrated, and give their runs back when they stop.
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { createEmptyDatabase, createTestDatabase } from "../helpers/database.js";
import { startProxy } from "../helpers/proxy.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject } from "./project.js";

const API = ["api", "--port", "0"];
const post = (url: string, body: object) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

const env = (databaseUrl: string, cwd: string) => ({
  DATABASE_URL: databaseUrl,
  PERDURE_BODIES: `file://${cwd}/bodies`,
  PERDURE_POLL_MS: "100",
});

describe("a process that serves", () => {
  it("starts with Postgres away: not ready, takes no run, and works once it is there", async () => {
    const database = await createTestDatabase();
    const proxy = await startProxy(database.url);
    proxy.faults.refusing = true;
    const url = new URL(database.url);
    url.port = String(proxy.port);
    const cwd = await createProject();
    const api = startProcess(["api", "--port", "0"], {
      cwd,
      env: { ...env(url.href, cwd), PERDURE_LOG_LEVEL: "info" },
    });
    const worker = startProcess(["worker"], { cwd, env: env(url.href, cwd) });
    try {
      const [, apiUrl = ""] = await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
      await api.waitFor("Postgres can't be reached; trying again");
      await worker.waitFor("Postgres can't be reached; trying again");
      expect((await fetch(`${apiUrl}/ok`)).status).toBe(503);
      expect((await post(`${apiUrl}/threads`, {})).status).toBe(503);
      expect((await post(`${apiUrl}/runs`, { assistant_id: "agent", input: {} })).status).toBe(503);

      proxy.faults.refusing = false;
      await until("the API is ready", async () => (await fetch(`${apiUrl}/ok`)).status === 200);
      await worker.waitFor("perdure worker is ready");
      const answer = await post(`${apiUrl}/runs/wait`, { assistant_id: "agent", input: { n: 0 } });
      expect(await answer.json()).toEqual({ n: 1 });
    } finally {
      const codes = await Promise.all([api.stop(), worker.stop()]);
      await proxy.close();
      await database.close();
      expect(codes).toEqual([0, 0]);
    }
  });

  it("refuses a database that was not migrated, and says how to migrate it", async () => {
    const database = await createEmptyDatabase();
    const cwd = await createProject();
    const served = await runProcess(API, { cwd, env: env(database.url, cwd) });
    expect(served.output).toContain("Run `perdure migrate`");
    expect(served.code).toBe(2);

    const migrated = await runProcess(["migrate"], { cwd, env: { DATABASE_URL: database.url } });
    expect(migrated.stdout).toMatch(/^Applied 0001_/);
    const again = await runProcess(["migrate", "--json"], { cwd, env: { DATABASE_URL: database.url } });
    expect(JSON.parse(again.stdout)).toEqual({ applied: [] });
    await database.close();
  });

  it("gives its run back on SIGTERM, without counting a crash, and another finishes it", async () => {
    const database = await createTestDatabase();
    const cwd = await createProject();
    const gate = path.join(cwd, "gate");
    await writeFile(path.join(cwd, "graph.ts"), slowGraph(gate));
    const all = { cwd, env: env(database.url, cwd) };
    const first = startProcess(["start", "--port", "0"], all);
    const [, apiUrl] = await first.waitFor(/is ready at (\S+)/);
    const thread = (await (await post(`${apiUrl}/threads`, {})).json()) as { thread_id: string };
    await post(`${apiUrl}/threads/${thread.thread_id}/runs`, { assistant_id: "agent", input: { steps: [] } });
    await first.waitFor("step 1 waits");
    const stopping = first.stop();
    await first.waitFor("stopping: no new work");
    await writeFile(gate, "");
    expect(await stopping).toBe(0);

    const { rows } = await database.db.query("select status, attempt, crashes from runs");
    expect(rows).toEqual([{ status: "pending", attempt: 1, crashes: 0 }]);
    const second = startProcess(["worker"], all);
    await until("the run succeeds", async () => {
      const found = await database.db.query<{ status: string }>("select status from runs");
      return found.rows[0]?.status === "success";
    });
    expect(second.output()).not.toContain("step 1 waits");
    expect(await second.stop()).toBe(0);
    await database.close();
  });
});

const slowGraph = (gate: string): string => `
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ steps: Annotation<number[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
export const graph = new StateGraph(State)
  .addNode("one", async () => {
    console.log("step 1 waits");
    while (!existsSync(${JSON.stringify(gate)})) await sleep(20);
    return { steps: [1] };
  })
  .addNode("two", () => ({ steps: [2] }))
  .addEdge("__start__", "one")
  .addEdge("one", "two");
`;
