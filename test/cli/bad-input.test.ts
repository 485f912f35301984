// What is wrong on the command line, in the environment or around us: one clear message that names it, the right exit
// code, and nothing left behind.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { createEmptyDatabase } from "../helpers/database.js";
import { runProcess } from "../helpers/processes.js";
import { createProject } from "./project.js";

const NOWHERE = "postgres://nobody@127.0.0.1:9/none";

describe("the command line", () => {
  it.each([
    [["frobnicate"], "unknown command 'frobnicate'"],
    [["runs", "ls", "--statsu", "error"], "unknown option '--statsu'"],
    [["runs", "ls", "--status", "eror"], "--status must be one of pending, running"],
    [["runs", "show", "abc"], '"abc" is not the id of a run; ids are UUIDs'],
    [["threads", "state", "7"], '"7" is not the id of a thread'],
    [["approvals", "approve", "x"], '"x" is not the id of an approval'],
    [["prune", "--older-than", "999999w"], '--older-than must be a length of time like "12h"'],
    [["dev", "--port", "eighty"], "--port must be a whole number from 0 to 65535"],
    [["dev", "--workers", "-1"], "--workers must be a whole number from 0 to 64"],
    [["runs", "ls"], "DATABASE_URL is not set and no development server runs in .perdure"],
  ])("%j is refused with exit code 2", async (args, message) => {
    const { code, output } = await runProcess(args, { cwd: await createProject() });
    expect(output).toContain(`perdure: ${message}`);
    expect(output).not.toContain("    at ");
    expect(code).toBe(2);
  });

  it("prints help and version with exit code 0", async () => {
    const cwd = await createProject();
    for (const flag of ["--help", "--version"]) expect(await runProcess([flag], { cwd })).toMatchObject({ code: 0 });
  });
});

describe("the environment", () => {
  it.each(["start", "api", "worker", "migrate"])("without a database, `%s` says so", async (command) => {
    const { code, output } = await runProcess([command], { cwd: await createProject() });
    expect(output).toContain(`DATABASE_URL is not set: \`perdure ${command}\` needs a Postgres`);
    expect(code).toBe(2);
  });

  it("without a place for bodies, `worker` says so", async () => {
    const env = { DATABASE_URL: NOWHERE };
    const { code, output } = await runProcess(["worker"], { cwd: await createProject(), env });
    expect(output).toContain("PERDURE_BODIES is not set");
    expect(code).toBe(2);
  });

  it("an unknown setting is named with the right name", async () => {
    const env = { DATABASE_URL: NOWHERE, PERDURE_LEASE: "5" };
    const { code, output } = await runProcess(["worker"], { cwd: await createProject(), env });
    expect(output).toContain("PERDURE_LEASE is not a setting; did you mean PERDURE_LEASE_MS?");
    expect(code).toBe(2);
  });

  it("a database that can't be reached fails a command that needs it now", async () => {
    const { code, output } = await runProcess(["runs", "ls"], {
      cwd: await createProject(),
      env: { DATABASE_URL: NOWHERE },
    });
    expect(output).toContain("perdure: Postgres at 127.0.0.1:9 can't be reached (ECONNREFUSED). Start it, or check");
    expect(code).toBe(1);
  });

  it.each([
    ["runs", "ls"],
    ["approvals", "ls"],
    ["threads", "state", randomUUID()],
  ])("a database that was not migrated is refused by `%s %s`", async (...args) => {
    const database = await createEmptyDatabase();
    const cwd = await createProject();
    const env = { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies` };
    const { code, output } = await runProcess(args, { cwd, env });
    await database.close();
    expect(output).toMatch(/^perdure: The database lacks the migrations .*Run `perdure migrate`\.\n$/);
    expect(code).toBe(2);
  });

  it("a role without rights is told which one it lacks", async () => {
    const database = await createEmptyDatabase();
    const role = `perdure_test_${randomUUID().slice(0, 8)}`;
    await database.db.query(`create role ${role} login password 'x'`);
    try {
      const url = new URL(database.url);
      url.username = role;
      url.password = "x";
      const { code, output } = await runProcess(["migrate"], {
        cwd: await createProject(),
        env: { DATABASE_URL: url.href },
      });
      expect(output).toMatch(
        /^perdure: Postgres refused: permission denied for database .* Grant that right to the role/,
      );
      expect(code).toBe(2);
    } finally {
      await database.db.query(`drop role ${role}`);
      await database.close();
    }
  });
});

describe("graphs", () => {
  const broken = { "graph.ts": `throw new TypeError("no API key");` };

  it("that throw on import are named with file, export, cause and line", async () => {
    const env = { DATABASE_URL: NOWHERE, PERDURE_BODIES: "file:///tmp/none" };
    const { code, output } = await runProcess(["worker"], { cwd: await createProject(broken), env });
    expect(output).toMatch(
      /graph "agent" \(.*graph\.ts, export "graph"\) threw on import: TypeError: no API key \(line 1\)/,
    );
    expect(code).toBe(2);
  });

  it.each([
    ["process.exit(0)", /^perdure: graph "agent" \(.*graph\.ts\) ended the process on import \(exit code 0\)/],
    ["await new Promise(() => undefined)", /^perdure: graph "agent" .* ended the process on import.*awaits what never/],
    [
      "void Promise.reject(new Error('stray')); await new Promise((go) => setTimeout(go, 500))",
      /^perdure: graph "agent" .* ended the process on import/,
    ],
    ["export const graph = null", /^perdure: graph "agent" .* is null; export a compiled graph/],
    ["export default 1", /^perdure: graph "agent" .* does not exist; the file exports default/],
  ])("that can't be used are named: %s", async (source, message) => {
    const { code, output } = await runProcess(["graphs"], { cwd: await createProject({ "graph.ts": source }) });
    expect(output).toMatch(message);
    expect(code).toBe(2);
  });

  it.each([
    [`{"graphs":{"agent":5}}`, /"graphs\.agent": must be a path like \.\/agent\.ts:graph/],
    [`{"graph":{"agent":"./graph.ts:graph"}}`, /"graphs": must name the graphs, like/],
    [`{"graphs":{"agent":"./graph.ts:graph"},"env":{"A":5}}`, /"env": must be a file's name/],
  ])("langgraph.json is refused by place: %s", async (project, message) => {
    const { code, output } = await runProcess(["graphs"], { cwd: await createProject({ "langgraph.json": project }) });
    expect(output).toMatch(message);
    expect(code).toBe(2);
  });

  it("an unknown key of langgraph.json is named where graphs are listed", async () => {
    const project = `{"graphs":{"agent":"./graph.ts:graph"},"evn":".env"}`;
    const { code, output } = await runProcess(["graphs"], { cwd: await createProject({ "langgraph.json": project }) });
    expect(output).toContain('"evn" is not known and has no effect; did you mean "env"?');
    expect(code).toBe(0);
  });

  it("load from a CommonJS project too, and find this very package", async () => {
    const cwd = await createProject({
      "package.json": "{}",
      "graph.ts": `import { sleepUntil } from "perdure";
import { Annotation, StateGraph } from "@langchain/langgraph";
export const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
  .addNode("wait", async () => { await sleepUntil(new Date()); return {}; }).addEdge("__start__", "wait");`,
    });
    const { code, stdout } = await runProcess(["graphs", "--json"], { cwd });
    expect(JSON.parse(stdout)).toMatchObject({ graphs: [{ id: "agent" }] });
    expect(code).toBe(0);
  });

  it("that can't be loaded end `dev` with nothing left behind", async () => {
    const cwd = await createProject(broken);
    const { code, output } = await runProcess(["dev", "--port", "0"], { cwd });
    expect(output).toContain("threw on import: TypeError: no API key");
    expect(code).toBe(2);
    expect(existsSync(path.join(cwd, ".perdure"))).toBe(false);
  });
});

describe("dev", () => {
  it("names a port in use, and has started nothing", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    const cwd = await createProject();
    const { code, output } = await runProcess(["dev", "--port", String(port)], { cwd });
    server.close();
    expect(output).toContain(`Port ${port} on 127.0.0.1 is in use`);
    expect(code).toBe(2);
    expect(existsSync(path.join(cwd, ".perdure"))).toBe(false);
  });

  it("names a data dir that can't be written to", async () => {
    const cwd = await createProject();
    const dataDir = path.join(cwd, "data");
    await mkdir(dataDir);
    await chmod(dataDir, 0o555);
    // Nothing is read-only to root.
    const uid = process.getuid?.() === 0 ? { uid: 65534 } : {};
    const { code, output } = await runProcess(["dev", "--port", "0", "--data-dir", dataDir], { cwd, ...uid });
    expect(output).toContain(`${dataDir} can't be written to (EACCES)`);
    expect(code).toBe(2);
    expect(await readdir(dataDir)).toEqual([]);
  });

  it("names a data dir that is a file", async () => {
    const cwd = await createProject();
    await writeFile(path.join(cwd, "data"), "");
    const { code, output } = await runProcess(["dev", "--port", "0", "--data-dir", "data"], { cwd });
    expect(output).toContain(`${path.join(cwd, "data")} can't be written to (EEXIST)`);
    expect(code).toBe(2);
  });

  it("names the file of a data dir that lost its password", async () => {
    const cwd = await createProject();
    await mkdir(path.join(cwd, "data/postgres"), { recursive: true });
    await writeFile(path.join(cwd, "data/postgres/PG_VERSION"), "18\n");
    await writeFile(path.join(cwd, "data/postgres/perdure.json"), "{");
    const { code, output } = await runProcess(["dev", "--port", "0", "--data-dir", "data"], { cwd });
    expect(output).toMatch(/^perdure: .*data\/postgres\/perdure\.json, which holds the password .* can't be read/);
    expect(code).toBe(2);
    expect(await readdir(path.join(cwd, "data"))).toEqual(["postgres"]);
  });

  it("refuses an address that others could reach", async () => {
    const { code, output } = await runProcess(["dev", "--host", "0.0.0.0"], { cwd: await createProject() });
    expect(output).toContain("perdure dev listens on this machine only");
    expect(code).toBe(2);
  });
});
