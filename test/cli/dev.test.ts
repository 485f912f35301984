// `perdure dev` on real parts: everything comes up, dies and comes back, follows its graphs, and goes down without a trace.
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { DevFile } from "../../src/cli/dev/data-dir.js";
import { isRunning } from "../../src/db/embedded/process.js";
import { stopEmbedded } from "../helpers/postgres.js";
import { runProcess, startProcess, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject, graphSource } from "./project.js";

const READY_MS = 90_000;
const ARGS = ["dev", "--port", "0", "--workers", "2"];
// Nothing here waits for a lease to end.
const ENV = { PERDURE_POLL_MS: "200", PERDURE_LEASE_MS: "2000" };

type Dev = Readonly<{ process: TestProcess; cwd: string; file(): Promise<DevFile>; pids(): Promise<number[]> }>;

const started: Dev[] = [];

afterEach(async () => {
  for (const { process, cwd } of started.splice(0)) {
    await process.kill();
    await stopEmbedded(path.join(cwd, ".perdure/postgres"));
  }
});

async function startDev(cwd: string): Promise<Dev> {
  const process = startProcess(ARGS, { cwd, env: ENV });
  const file = async () => JSON.parse(await readFile(path.join(cwd, ".perdure/dev.json"), "utf8")) as DevFile;
  const pids = async () => {
    const { supervisor, api, workers } = (await file()).pids;
    const postmaster = await readFile(path.join(cwd, ".perdure/postgres/postmaster.pid"), "utf8");
    return [supervisor, api, ...workers, Number(postmaster.split("\n")[0])];
  };
  const dev = { process, cwd, file, pids };
  started.push(dev);
  await process.waitFor("perdure dev is ready", READY_MS);
  return dev;
}

/** Runs the graph and gives what it says. */
async function ask({ api_url }: DevFile): Promise<unknown> {
  const response = await fetch(`${api_url}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "agent", input: { n: 0 } }),
  });
  return response.json();
}

describe("perdure dev", () => {
  it("serves, restarts what dies, and leaves nothing behind when it stops", { timeout: 240_000 }, async () => {
    const dev = await startDev(await createProject());
    const first = await dev.file();
    expect(await ask(first)).toEqual({ n: 1 });
    // The page is dev's own: no API has it.
    const [, chat = ""] = /^ {2}chat +(\S+)$/m.exec(dev.process.output()) ?? [];
    expect((await fetch(chat)).status).toBe(200);
    expect((await fetch(`${first.api_url}/dev/chat`)).status).toBe(404);

    const [victim, other] = first.pids.workers as [number, number];
    process.kill(victim, "SIGKILL");
    process.kill(first.pids.api, "SIGKILL");
    const second = await until("new processes in dev.json", async () => {
      const { pids } = await dev.file();
      return pids.workers.length === 2 && !pids.workers.includes(victim) && pids.api !== first.pids.api && dev.file();
    });
    expect(second.pids.workers).toContain(other);
    expect(second.pids.supervisor).toBe(first.pids.supervisor);
    expect(second.api_url).toBe(first.api_url);
    await until("the API again", () => fetch(`${second.api_url}/ok`).then(({ ok }) => ok));

    const postmaster = (await dev.pids()).at(-1) as number;
    process.kill(postmaster, "SIGKILL");
    await until("Postgres again", async () => (await dev.pids()).at(-1) !== postmaster);
    await until("an answer on the new Postgres", () => fetch(`${second.api_url}/ok`).then(({ ok }) => ok));
    expect(await ask(second)).toEqual({ n: 1 });
    expect((await dev.file()).pids).toEqual(second.pids);

    const pids = await dev.pids();
    expect(await dev.process.stop()).toBe(0);
    expect(pids.filter(isRunning)).toEqual([]);
    expect(existsSync(path.join(dev.cwd, ".perdure/dev.json"))).toBe(false);
    expect(existsSync(path.join(dev.cwd, ".perdure/dev.lock"))).toBe(false);
  });

  it("loads edited graphs and routes, and goes on with the old ones while an edit is broken", {
    timeout: 240_000,
  }, async () => {
    const graphs = { agent: "./graph.ts:graph" };
    const routes = (text: string) =>
      `import { Hono } from "hono"; export const app = new Hono().get("/mine", (c) => c.text("${text}"));`;
    const cwd = await createProject({
      "langgraph.json": JSON.stringify({ graphs, http: { app: "./app.ts:app" } }),
      "app.ts": routes("first"),
    });
    const dev = await startDev(cwd);
    const before = await dev.file();
    await writeFile(path.join(cwd, "graph.ts"), `${graphSource(2)} throw new Error("not finished");`);
    await dev.process.waitFor(/can't be used; what runs goes on[^]*threw on import: Error: not finished/, READY_MS);
    expect(await ask(before)).toEqual({ n: 1 });
    expect((await dev.file()).pids).toEqual(before.pids);

    await writeFile(path.join(cwd, "graph.ts"), graphSource(3));
    await dev.process.waitFor("files changed, starting again with agent", READY_MS);
    await until("the new graph's answer", async () => ((await ask(before)) as { n: number }).n === 3, {
      timeoutMs: READY_MS,
    });
    const mine = async () => (await fetch(`${before.api_url}/mine`)).text();
    expect(await mine()).toBe("first");
    await writeFile(path.join(cwd, "app.ts"), routes("second"));
    await until("the new routes", async () => (await mine()) === "second", { timeoutMs: READY_MS });
    await writeFile(path.join(cwd, "app.ts"), "export const app = {;");
    await dev.process.waitFor(/can't be used[^]*http\.app \(.*app\.ts, export "app"\) threw on import/, READY_MS);
    await writeFile(path.join(cwd, "langgraph.json"), "{");
    await dev.process.waitFor(/can't be used[^]*langgraph\.json is not JSON/, READY_MS);
    expect(await mine()).toBe("second");
    expect(await dev.process.stop()).toBe(0);
  });

  it("is found by other commands, refuses a second one, and takes over from one that was killed", {
    timeout: 240_000,
  }, async () => {
    const cwd = await createProject();
    const killed = await startDev(cwd);
    await ask(await killed.file());
    const runs = await runProcess(["runs", "ls", "--json"], { cwd });
    expect(JSON.parse(runs.stdout)).toMatchObject([{ graph_id: "agent", status: "success" }]);

    const second = await runProcess(ARGS, { cwd });
    expect(second.output).toContain(`.perdure is in use by the process ${killed.process.pid}`);
    expect(second.code).toBe(1);

    const [supervisor, api, ...workers] = await killed.pids();
    const postmaster = workers.pop() as number;
    await killed.process.kill();
    await until(
      "its processes end with it",
      () => ![supervisor, api, ...workers].some((pid) => isRunning(pid as number)),
    );
    expect(isRunning(postmaster)).toBe(true);

    const heir = await startDev(cwd);
    expect((await heir.pids()).at(-1)).toBe(postmaster);
    expect(await heir.process.stop()).toBe(0);
    expect(isRunning(postmaster)).toBe(false);
  });
});
