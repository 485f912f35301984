import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Annotation, entrypoint, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeSchemas } from "../../src/engine/assistant-graph.js";
import { graphsFrom, loadGraphs } from "../../src/engine/graphs.js";
import { readProject } from "../../src/engine/langgraph-json.js";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "perdure-graphs-"));
  await symlink(path.resolve("node_modules"), path.join(dir, "node_modules"));
  await writeFile(path.join(dir, "package.json"), `{"type":"module"}`);
});
afterAll(async () => {
  await rm(dir, { recursive: true, force: true });
});

/** Writes files and reads the langgraph.json among them. */
async function project(files: Readonly<Record<string, string | object>>) {
  const folder = await mkdtemp(path.join(dir, "p-"));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  return path.join(folder, "langgraph.json");
}

const GRAPH = `import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ n: Annotation<number> });
export const builder = new StateGraph(State).addNode("one", () => ({ n: 1 })).addEdge("__start__", "one");
export const graph = builder.compile();
export default graph;
`;

describe("graphs from files", () => {
  it("may be compiled, uncompiled, the default export, a factory or a promise", async () => {
    const config = await project({
      "langgraph.json": {
        graphs: {
          compiled: "./g.ts:graph",
          builder: { path: "./g.ts:builder", description: "Counts." },
          plain: "./g.ts",
          factory: "./f.ts:make",
          promised: "./f.ts:promised",
        },
      },
      "g.ts": GRAPH,
      "f.ts": `import { graph, builder } from "./g.js";
export const make = async (config: { configurable?: { kind?: string } }) => config.configurable?.kind === "raw" ? builder : graph;
export const promised = Promise.resolve(graph);`,
    });
    const graphs = await loadGraphs((await readProject(config)).graphs);
    expect(graphs.ids).toEqual(["compiled", "builder", "plain", "factory", "promised"]);
    expect(graphs.description("builder")).toBe("Counts.");
    for (const id of graphs.ids) {
      const graph = await graphs.get(id, { configurable: { kind: "raw" } });
      expect(await graph.invoke({ n: 0 })).toEqual({ n: 1 });
    }
  });

  it("have a version that follows the graph's own source, helpers included", async () => {
    const files = {
      "langgraph.json": { graphs: { agent: "./g.ts:graph" } },
      "g.ts": `${GRAPH}import "./lib/helper.js";`,
      "lib/helper.ts": "export const helper = 1;",
    };
    const load = async (changed: object) =>
      loadGraphs((await readProject(await project({ ...files, ...changed }))).graphs);
    const [same, again, other] = [
      await load({}),
      await load({}),
      await load({ "lib/helper.ts": "export const helper = 2;" }),
    ];
    expect(again.version("agent")).toBe(same.version("agent"));
    expect(other.version("agent")).not.toBe(same.version("agent"));
    expect(same.files.map((file) => path.basename(file)).sort()).toEqual(["g.ts", "helper.ts"]);
  });

  it("that can't be used are all named at once, with file, export and cause", async () => {
    const config = await project({
      "langgraph.json": {
        graphs: {
          missing: "./nowhere.ts:graph",
          throws: "./throws.ts:graph",
          syntax: "./syntax.ts:graph",
          unexported: "./g.ts:grpah",
          wrong: "./wrong.ts:value",
          good: "./g.ts:graph",
        },
      },
      "g.ts": GRAPH,
      "throws.ts": `const key: string | undefined = undefined;\nif (!key) throw new TypeError("no API key");\nexport {};`,
      "syntax.ts": "export const graph = {;",
      "wrong.ts": "export const value = { a: 1 };",
    });
    const error = await loadGraphs((await readProject(config)).graphs).then(
      () => null,
      (caught: unknown) => caught as { code: string; message: string },
    );
    expect(error?.code).toBe("graph_invalid");
    const lines = error?.message.split("\n") ?? [];
    expect(lines).toHaveLength(5);
    expect(lines[0]).toMatch(
      /^graph "missing" \(.*nowhere\.ts, export "graph"\) can't be loaded: there is no such file$/,
    );
    expect(lines[1]).toMatch(/^graph "throws" .* threw on import: TypeError: no API key \(line 2\)$/);
    expect(lines[2]).toMatch(/^graph "syntax" .* threw on import: /);
    expect(lines[3]).toMatch(/^graph "unexported" .* does not exist; the file exports builder, graph$/);
    expect(lines[4]).toMatch(/^graph "wrong" .* is a plain object; export a compiled graph/);
  });
});

describe("graphs in process", () => {
  const State = Annotation.Root({ n: Annotation<number> });
  const builder = new StateGraph(State).addNode("one", () => ({ n: 1 })).addEdge("__start__", "one");

  it("take the same shapes, entrypoints and agents too", async () => {
    const graphs = graphsFrom({
      builder,
      entry: entrypoint("entry", (input: { n: number }) => Promise.resolve({ n: input.n + 1 })),
      agent: { graph: builder.compile() },
    });
    expect(await (await graphs.get("entry")).invoke({ n: 1 })).toEqual({ n: 2 });
    expect(await (await graphs.get("agent")).invoke({ n: 0 })).toEqual({ n: 1 });
  });

  it("are asked for by an id that exists, and the error says which is near", async () => {
    const graphs = graphsFrom({ support: builder });
    await expect(graphs.get("suport")).rejects.toThrow('Graph "suport" not found; did you mean "support"?');
    expect(() => graphsFrom({ broken: 7 })).toThrow('graph "broken" is a number');
  });

  it("tell a factory what its graph is for", async () => {
    const told: unknown[] = [];
    const graphs = graphsFrom({
      made: (_config: unknown, runtime: unknown) => (told.push(runtime), builder),
    });
    await graphs.get("made");
    const run = { accessContext: "threads.create_run", executionRuntime: { context: { a: 1 } } } as const;
    await graphs.get("made", {}, run);
    expect(told).toEqual([{ accessContext: "assistants.read", executionRuntime: null }, run]);
  });

  it("name the graph whose factory throws or returns something else", async () => {
    const graphs = graphsFrom({
      throws: () => {
        throw new Error("no model");
      },
      other: () => 7,
    });
    await expect(graphs.get("throws")).rejects.toThrow('the factory of graph "throws" threw Error: no model');
    await expect(graphs.get("other")).rejects.toThrow('the factory of graph "other" returned a number');
  });
});

describe("langgraph.json", () => {
  it("reads env from a file, an object or a list", async () => {
    const graphs = { agent: "./g.ts:graph" };
    const fromFile = await readProject(
      await project({ "langgraph.json": { graphs, env: ".env" }, ".env": "A=1\nB='2 3'" }),
    );
    expect(fromFile.env).toEqual({ A: "1", B: "2 3" });
    const fromObject = await readProject(await project({ "langgraph.json": { graphs, env: { A: "1" } } }));
    expect(fromObject.env).toEqual({ A: "1" });
    const fromList = await readProject(await project({ "langgraph.json": { graphs, env: ["A=1", "HOME"] } }));
    expect(fromList.env).toEqual({ A: "1" });
  });

  it.each([
    ["{", "is not JSON"],
    [{}, '"graphs"'],
    [{ graphs: {} }, '"graphs" is empty'],
    [{ graphs: { a: "./a.py:graph" } }, 'graph "a": ./a.py:graph is Python'],
    [{ graphs: { a: "./a.ts:graph" }, env: ".env.missing" }, ".env.missing, which can't be read (ENOENT)"],
    [{ graphs: { a: "./a.ts:graph" }, perdure: { concurency: 3 } }, 'did you mean "perdure.concurrency"?'],
    [{ graphs: { a: "./a.ts:graph" }, perdure: { concurrency: 0 } }, '"perdure.concurrency"'],
    [{ graphs: { a: "./a.ts:graph" }, http: { disable_run: true } }, 'did you mean "http.disable_runs"?'],
    [{ graphs: { a: "./a.ts:graph" }, http: { cors: { allow_origin: [] } } }, '"http.cors.allow_origins"?'],
    [{ graphs: { a: "./a.ts:graph" }, http: { cors: { allow_origin_regex: "(" } } }, "must be a regular expression"],
    [{ graphs: { a: "./a.ts:graph" }, http: { middleware_order: "last" } }, '"http.middleware_order"'],
    [{ graphs: { a: "./a.ts:graph" }, http: { apps: { ext: "./app.ts" } } }, "must be like /agents"],
    [{ graphs: { a: "./a.ts:graph" }, ui: { "a b": "./ui.tsx" } }, '"ui" names "a b"'],
  ])("refuses %j saying what is wrong", async (content, message) => {
    const file = await project({ "langgraph.json": content });
    await expect(readProject(file)).rejects.toThrow(message);
  });

  it("warns of what has no effect and leaves other tools' keys alone", async () => {
    const file = await project({
      "langgraph.json": {
        $schema: "https://langgra.ph/schema.json",
        graphs: { a: "./a.ts:graph" },
        dockerfile_lines: [],
        ui: { card: "./ui.tsx" },
        http: { app: "./app.ts:app", logging_headers: { includes: ["x-a"] }, something_new_altogether: 1 },
        enviroment: {},
        node_version: "99",
      },
    });
    const { warnings } = await readProject(file);
    expect(warnings.join("\n")).toContain('"enviroment" is not known and has no effect');
    expect(warnings.join("\n")).toContain('"http.logging_headers": no headers are logged; it has no effect');
    expect(warnings.join("\n")).toContain('"http.something_new_altogether" is not known and has no effect');
    expect(warnings.join("\n")).toContain('"node_version" asks for Node 99');
    expect(warnings).toHaveLength(4);
  });
});

describe("schemas of graphs that are typed in TypeScript only", () => {
  const files = { "langgraph.json": { graphs: { typed: "./typed.ts:graph" } }, "typed.ts": GRAPH };
  const parser = `export async function getStaticGraphSchema({ sourceFile, exportSymbol }) {
    if (!sourceFile.endsWith("/typed.ts") || exportSymbol !== "graph") throw new Error("nothing there");
    return { graph: { state: { type: "object", title: "from sources" }, input: undefined, output: undefined, config: undefined } };
  }`;
  const described = async (more: Readonly<Record<string, string | object>>) => {
    const { graphs } = await readProject(await project({ ...files, ...more }));
    return describeSchemas(await loadGraphs(graphs), { graphId: "typed", config: {}, context: {} });
  };

  const place = "node_modules/@langchain/langgraph-api";
  const installed = {
    [`${place}/package.json`]: {
      name: "@langchain/langgraph-api",
      type: "module",
      exports: { "./schema": "./schema.mjs" },
    },
  };

  it("come from the project's own parser of sources, where it has one", async () => {
    const more = { [`${place}/schema.mjs`]: parser, "tsconfig.json": {} };
    const { state, input } = await described({ ...installed, ...more });
    expect(state).toEqual({ type: "object", title: "from sources" });
    // What the sources don't say is told by the channels.
    expect(input).toEqual({ type: "object", properties: { n: {} } });
  });

  it("are read as code for Node, where no tsconfig.json says how", async () => {
    const { state } = await described({
      ...installed,
      "node_modules/typescript/index.js": "exports.sys = { fileExists: () => false, readFile: () => undefined };",
      [`${place}/schema.mjs`]: `import ts from "typescript";
        export async function getStaticGraphSchema({ sourceFile }) {
          const file = sourceFile.replace(/[^/]+$/, "tsconfig.json");
          const { compilerOptions } = JSON.parse(ts.sys.fileExists(file) ? ts.sys.readFile(file) : "{}");
          return { graph: { state: { type: "object", title: compilerOptions.moduleResolution } } };
        }`,
    });
    expect(state).toEqual({ type: "object", title: "NodeNext" });
  });

  it("name the channels, where it has none", async () => {
    expect((await described({})).state).toEqual({ type: "object", properties: { n: {} } });
  });
});

describe("checkpointer.ttl", () => {
  const at = async (checkpointer: object) =>
    readProject(await project({ "langgraph.json": { graphs: { a: "./a.ts:graph" }, checkpointer } }));

  it("is how long threads are kept that clients make without saying so", async () => {
    const ttl = { strategy: "keep_latest", default_ttl: 60, sweep_interval_minutes: 5 };
    const { settings, warnings } = await at({ ttl });
    expect(settings.threadTtl).toEqual({ minutes: 60, strategy: "keep_latest" });
    expect(warnings.join()).toContain('"checkpointer.ttl.sweep_interval_minutes" is not needed');
    expect((await at({ ttl: { default_ttl: 5 } })).settings.threadTtl).toEqual({ minutes: 5, strategy: "delete" });
    expect((await at({ ttl: null })).settings.threadTtl).toBeNull();
  });

  it("is refused when it can't be meant", async () => {
    await expect(at({ ttl: { default_ttl: -1 } })).rejects.toThrow(/checkpointer\.ttl\.default_ttl/);
    await expect(at({ ttl: { strategy: "forget" } })).rejects.toThrow(/checkpointer\.ttl\.strategy/);
  });
});
