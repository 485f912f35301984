// The dependency rule as a test. The rows, from the bottom; a folder imports itself and lower rows, never sideways or up.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROWS: readonly (readonly string[])[] = [
  // The widget runs in browsers.
  ["core", "widget"],
  ["db", "bodies", "observe"],
  ["runs", "checkpoint", "effects", "budgets", "approvals", "schedule", "delivery", "assistants", "keys", "items"],
  ["engine"],
  ["api", "cli", "testing"],
];
/** Who may use what lies outside: packages by prefix, and the environment. */
const ONLY_IN: readonly (readonly [package_: RegExp, folders: readonly string[]])[] = [
  [/^pg$/, ["db"]],
  [/^@aws-sdk\/|^@smithy\//, ["bodies"]],
  [/^@?hono(\/|$)/, ["api"]],
  [/^@modelcontextprotocol\//, ["api"]],
  [/^(@langchain\/|langchain$)/, ["checkpoint", "effects", "engine", "index.ts", "testing", "testing.ts"]],
  [/^pino$|^prom-client$|^@opentelemetry\//, ["observe"]],
];
const IMPORT =
  /(?:^|[\s;}])(?:import|export)\s[^"';]*?from\s*"([^"]+)"|\bimport\s*\(?\s*"([^"]+)"|\bnew URL\(\s*"(\.[^"]+\.js)"/g;
const ENVIRONMENT = /\bprocess\.env\b/;

/** Comments may say what code may not. */
const source = (file: string, text: string): Source => ({ file, text: text.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, "") });
type Source = Readonly<{ file: string; text: string }>;

/** What breaks the rule, one line each. `file` is relative to src. */
function sins(sources: readonly Source[]): string[] {
  return sources.flatMap(({ file, text }) => {
    const from = folderOf(file);
    const found = [...text.matchAll(IMPORT)].map(([, a, b, c]) => a ?? b ?? c ?? "");
    const wrong = found.filter(
      (name) => !(name.startsWith(".") ? mayImport(from, inSrc(file, name)) : mayUse(from, name)),
    );
    const reads = ENVIRONMENT.test(text) && file !== "config.ts" ? ["process.env"] : [];
    return [...wrong, ...reads].map((name) => `${file} uses ${name}`);
  });
}

function mayImport(from: string, target: string): boolean {
  if (target.startsWith("..")) return true; // package.json, migrations
  const to = folderOf(target);
  if (isRootFile(from)) return true;
  if (from === to) return true;
  return !isRootFile(to) && rowOf(to) < rowOf(from);
}

function mayUse(from: string, name: string): boolean {
  return ONLY_IN.every(([package_, folders]) => !package_.test(name) || folders.includes(from));
}

const folderOf = (file: string): string => file.split("/", 1)[0] ?? file;
const isRootFile = (folder: string): boolean => folder.endsWith(".ts") || folder.endsWith(".js");
const inSrc = (file: string, name: string): string =>
  path.posix.normalize(path.posix.join(path.posix.dirname(file), name));
function rowOf(folder: string): number {
  const row = ROWS.findIndex((folders) => folders.includes(folder));
  if (row === -1) throw new Error(`src/${folder} is in no row of the dependency rule`);
  return row;
}

/** Tables whose SQL stands in more than one folder. */
function sharedTables(sources: readonly Source[], tables: readonly string[]): string[] {
  return tables.flatMap((table) => {
    const statement = new RegExp(`\\b(from|into|update|join)\\s+${table}\\b`);
    const folders = new Set(sources.filter(({ text }) => statement.test(text)).map(({ file }) => folderOf(file)));
    return folders.size > 1 ? [`${table} in ${[...folders].join(" and ")}`] : [];
  });
}

function readTables(): string[] {
  const folder = new URL("../migrations/", import.meta.url);
  const sql = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), "utf8"));
  return [...sql.join("\n").matchAll(/^create table (\w+)/gm)].map(([, table = ""]) => table);
}

function readSources(): Source[] {
  const root = fileURLToPath(new URL("../src/", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  return files.map((file) => source(file.replaceAll(path.sep, "/"), readFileSync(path.join(root, file), "utf8")));
}

it("src keeps the dependency rule", () => {
  expect(sins(readSources())).toEqual([]);
});

it("a table's SQL stands in one folder", () => {
  const tables = readTables();
  expect(tables).toContain("runs");
  expect(sharedTables(readSources(), tables)).toEqual([]);
  const planted = ["runs/queries.ts", "engine/commit.ts"].map((file) => source(file, "`update runs set x = 1`"));
  expect(sharedTables(planted, tables)).toEqual(["runs in runs and engine"]);
});

describe("the rule sees", () => {
  it.each([
    ["a ledger that imports another", "runs/queries.ts", 'import { a } from "../checkpoint/queries.js";'],
    ["a ledger that imports the engine", "runs/queries.ts", 'export { a } from "../engine/commit.js";'],
    ["core that imports a port", "core/run.ts", 'import type { Db } from "../db/pool.js";'],
    ["ports that import each other", "bodies/s3.ts", 'import { a } from "../db/pool.js";'],
    ["doors that import each other", "cli/dev/dev.ts", 'import { a } from "../../api/app.js";'],
    ["a folder that imports a root file", "engine/loops/worker.ts", 'import { config } from "../../config.js";'],
    ["an import over several lines", "runs/queries.ts", 'import {\n  a,\n  b,\n} from "../approvals/queries.js";'],
    ["an import for its effects", "runs/queries.ts", 'import "../approvals/queries.js";'],
    ["an import at run time", "runs/queries.ts", 'const a = await import("../approvals/queries.js");'],
    ["pg outside db", "runs/queries.ts", 'import pg from "pg";'],
    ["S3 outside bodies", "engine/loops/mover.ts", 'import { S3Client } from "@aws-sdk/client-s3";'],
    ["hono outside api", "engine/engine.ts", 'import { Hono } from "hono";'],
    ["the server outside api", "cli/start.ts", 'import { serve } from "@hono/node-server";'],
    [
      "langchain in a ledger without it",
      "runs/queries.ts",
      'import type { BaseMessage } from "@langchain/core/messages";',
    ],
    ["the environment outside config", "db/pool.ts", "const url = process.env.DATABASE_URL;"],
  ])("%s", (_, file, text) => {
    expect(sins([source(file, text)])).toHaveLength(1);
  });

  it.each([
    ["a lower row", "engine/commands/claim-run.ts", 'import { a } from "../../runs/queries.js";'],
    ["its own folder", "db/embedded/server.ts", 'import { a } from "../errors.js";'],
    [
      "a root file that sees everything",
      "compose.ts",
      'import { a } from "./cli/dev.js";\nimport { b } from "./api/app.js";',
    ],
    ["a sentence about imports", "core/run.ts", '// import from "pg" is db\'s alone'],
  ])("no sin in %s", (_, file, text) => {
    expect(sins([source(file, text)])).toEqual([]);
  });
});
