// The ways to mount an engine in docs/mounting.md, as they stand there, as processes: a reader who copies them has an API.
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Client, ProtocolWebSocketTransportAdapter, ThreadStream } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { graphSource } from "../cli/project.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { quietPort } from "../helpers/ports.js";
import { startProcess } from "../helpers/processes.js";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Without a process between: it would be killed in place of the server. */
const TSX = { NODE_OPTIONS: `--import=${import.meta.resolve("tsx")}` };

let dir: string;
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  dir = await mkdtemp(path.join(tmpdir(), "perdure-mounting-"));
  await writeFiles(await snippets());
});
afterAll(async () => {
  // What was killed may have children that write for a moment.
  await rm(dir, { recursive: true, maxRetries: 20, retryDelay: 250 });
  await database.close();
});

/** By the file that the first line of each names. */
async function snippets(): Promise<Record<string, string>> {
  const guide = await readFile(path.join(ROOT, "docs/mounting.md"), "utf8");
  const blocks = [...guide.matchAll(/```ts\n\/\/ (\S+\.ts)(?: of Next)?\n([\s\S]*?)```/g)];
  return Object.fromEntries(blocks.map(([, name = "", text = ""]) => [name, text]));
}

async function writeFiles(files: Readonly<Record<string, string>>): Promise<void> {
  const all = { ...files, "package.json": '{"type":"module"}', "graph.ts": graphSource(7) };
  for (const [name, text] of Object.entries(all)) {
    await mkdir(path.dirname(path.join(dir, name)), { recursive: true });
    await writeFile(path.join(dir, name), text);
  }
  await mkdir(path.join(dir, "node_modules"));
  const linked = ["@hono", "@langchain", "express", "hono"];
  for (const name of linked) await symlink(path.join(ROOT, "node_modules", name), path.join(dir, "node_modules", name));
  await symlink(ROOT, path.join(dir, "node_modules/perdure"));
}

type PackageJson = Readonly<{ version: string; dependencies: Readonly<Record<string, string>> }>;
type Server = Readonly<{ script: string; args?: readonly string[]; env?: Readonly<Record<string, string>> }>;

/** A file of the folder, as TypeScript. */
const own = (file: string): Server => ({ script: path.join(dir, file), env: TSX });

async function served(
  { script, args = [], env: more = {} }: Server,
  work: (apiUrl: string) => Promise<void>,
): Promise<void> {
  const port = await quietPort();
  const env = { ...more, DATABASE_URL: database.url, PERDURE_BODIES: `file://${dir}/bodies`, PORT: String(port) };
  const server = startProcess(args, { script, cwd: dir, env });
  const apiUrl = `http://127.0.0.1:${port}/agents`;
  try {
    await until("it answers", async () => (await fetch(`${apiUrl}/ok`)).ok, { timeoutMs: 120_000 });
    await work(apiUrl);
  } catch (error) {
    throw new Error(`${String(error)}\n${server.output()}`, { cause: error });
  } finally {
    await server.kill();
  }
}

async function works(apiUrl: string): Promise<void> {
  const client = new Client({ apiUrl });
  const { thread_id } = await client.threads.create();
  const events: string[] = [];
  for await (const { event } of client.runs.stream(thread_id, "agent", { input: { n: 1 } })) events.push(event);
  expect(events).toEqual(["metadata", "values", "values"]);
  expect(await client.runs.wait(thread_id, "agent", { input: { n: 1 } })).toEqual({ n: 7 });
  expect((await client.threads.getState(thread_id)).values).toEqual({ n: 7 });
}

async function takesWebSockets(apiUrl: string): Promise<void> {
  const webSocketFactory = (url: string) => new WebSocket(url) as unknown as globalThis.WebSocket;
  const threadId = crypto.randomUUID();
  const transport = new ProtocolWebSocketTransportAdapter({ apiUrl, threadId, webSocketFactory });
  const thread = new ThreadStream(transport, { assistantId: "agent" });
  await thread.run.start({ input: { n: 1 } });
  expect(await thread.output).toEqual({ n: 7 });
  await thread.close();
}

describe("as docs/mounting.md has it", () => {
  it.each(["hono.ts", "express.ts"])("%s serves the API, WebSockets included", { timeout: 120_000 }, (file) =>
    served(own(file), async (apiUrl) => {
      await works(apiUrl);
      await takesWebSockets(apiUrl);
    }),
  );

  // Next itself is too large for each CI run: there its handlers are called as Next calls them, the soak builds and serves an app.
  it("Next's files answer requests as they come to its handlers", { timeout: 120_000 }, async () => {
    await writeFile(path.join(dir, "next-like.ts"), NEXT_LIKE);
    await served(own("next-like.ts"), works);
  });

  it.runIf(size(0, 1) === 1)("an app of Next is built and served", { timeout: 900_000 }, async () => {
    await rm(path.join(dir, "node_modules"), { recursive: true });
    const npm = path.join(path.dirname(process.execPath), "../lib/node_modules/npm/bin/npm-cli.js");
    const run = async (script: string, args: readonly string[], cwd = dir) => {
      const child = startProcess(args, { script, cwd, env: { NEXT_TELEMETRY_DISABLED: "1" } });
      const { code } = await child.exited;
      expect(code, child.output()).toBe(0);
    };
    // As it is installed: Next follows no links out of an application's folder.
    await run(npm, ["pack", "--ignore-scripts", "--pack-destination", dir], ROOT);
    const { version, ...ours } = JSON.parse(await readFile(path.join(ROOT, "package.json"), "utf8")) as PackageJson;
    const langchain = Object.entries(ours.dependencies).filter(([name]) => /^@langchain\/(core|langgraph)$/.test(name));
    const dependencies = {
      ...Object.fromEntries(langchain),
      perdure: `file:./perdure-${version}.tgz`,
      next: "16",
      react: "19",
      "react-dom": "19",
      typescript: "5",
      "@types/react": "19",
      "@types/node": "20",
    };
    await writeFile(path.join(dir, "package.json"), JSON.stringify({ type: "module", dependencies }));
    await writeFile(
      path.join(dir, "app/layout.tsx"),
      "export default ({ children }: { children: React.ReactNode }) => <html><body>{children}</body></html>;",
    );
    await writeFile(path.join(dir, "app/page.tsx"), "export default () => <p>home</p>;");
    await run(npm, ["install", "--no-audit", "--no-fund"]);
    const next = path.join(dir, "node_modules/next/dist/bin/next");
    await run(next, ["build"]);
    await served({ script: next, args: ["start", "-H", "127.0.0.1"] }, works);
    await served({ script: next, args: ["dev", "-H", "127.0.0.1"] }, works);
  });
});

/** A server that calls a route's handlers with whole URLs, after what instrumentation does. */
const NEXT_LIKE = `
import { serve } from "@hono/node-server";
import { register } from "./instrumentation";
import * as route from "./app/agents/[...path]/route";
process.env.NEXT_RUNTIME = "nodejs";
await register();
const handlers = route as unknown as Record<string, (request: Request) => Promise<Response>>;
serve({ fetch: (request) => handlers[request.method]!(request), port: Number(process.env.PORT), hostname: "127.0.0.1" });
`;
