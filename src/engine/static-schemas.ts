// Schemas of graphs that are typed only in TypeScript: read from their sources by the parser of `@langchain/langgraph-api`, where the
// project has that. It takes seconds, in a thread of its own, and is done once for each version of a graph.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { GraphSchemas, JsonSchema } from "./graph-schemas.js";

const PARSER = "@langchain/langgraph-api/schema";
const TIMEOUT_MS = 60_000;

/** Where a graph is exported: `file` is absolute. */
export type ExportedGraph = Readonly<{ file: string; exportName: string; version: string }>;

/** By namespace, with the root under "". Empty where there is no parser, or it can't read the file. */
export type StaticSchemas = ReadonlyMap<string, GraphSchemas>;

type Parsed = Readonly<
  Record<string, Readonly<Record<"state" | "input" | "output" | "config", JsonSchema | undefined>>>
>;
type Parser = Readonly<{
  getStaticGraphSchema(
    spec: Readonly<{ sourceFile: string; exportSymbol: string }>,
    options: Readonly<{ timeoutMs: number }>,
  ): Promise<Parsed>;
}>;

const NONE: StaticSchemas = new Map();
const read = new Map<string, Promise<StaticSchemas>>();

export function staticSchemas(graph: ExportedGraph): Promise<StaticSchemas> {
  if (!/\.[cm]?tsx?$/.test(graph.file)) return Promise.resolve(NONE);
  const key = [graph.file, graph.exportName, graph.version].join("\0");
  const known = read.get(key);
  if (known !== undefined) return known;
  const reading = parse(graph).catch(() => NONE);
  read.set(key, reading);
  return reading;
}

async function parse(graph: ExportedGraph): Promise<StaticSchemas> {
  const parser = pathToFileURL(createRequire(graph.file).resolve(PARSER)).href;
  const parsed = hasTsconfig(graph.file)
    ? await parseConfigured(parser, graph)
    : await parseUnconfigured(parser, graph);
  return new Map(
    Object.entries(parsed).map(([name, { state, input, output, config }]) => [
      name.split("|").slice(1).join("|"),
      { state: state ?? null, input: input ?? null, output: output ?? null, config: config ?? null },
    ]),
  );
}

async function parseConfigured(parser: string, { file, exportName }: ExportedGraph): Promise<Parsed> {
  const { getStaticGraphSchema } = (await import(parser)) as Parser;
  return getStaticGraphSchema({ sourceFile: file, exportSymbol: exportName }, { timeoutMs: TIMEOUT_MS });
}

function hasTsconfig(file: string): boolean {
  const folder = path.dirname(file);
  return existsSync(path.join(folder, "tsconfig.json")) || (folder !== path.dirname(folder) && hasTsconfig(folder));
}

/** As code for Node is compiled. */
const FOR_NODE = { target: "ES2022", module: "NodeNext", moduleResolution: "NodeNext", skipLibCheck: true };
const READ = `
const { parentPort, workerData: { parser, spec, tsconfig } } = require("node:worker_threads");
const { sys } = require("node:module").createRequire(parser)("typescript");
const { fileExists, readFile } = sys;
sys.fileExists = (file) => file === tsconfig.file || fileExists(file);
sys.readFile = (file, encoding) => (file === tsconfig.file ? tsconfig.text : readFile(file, encoding));
import(parser)
  .then(({ getStaticGraphSchema }) => getStaticGraphSchema(spec, { mainThread: true }))
  .then((parsed) => parentPort.postMessage(parsed));`;

/**
 * Without a tsconfig.json the parser compiles as TypeScript did ten years ago, and finds neither what packages export nor the types of
 * today's language: messages come out as lists of anything. So it is shown one, in a thread that nothing else runs in.
 */
async function parseUnconfigured(parser: string, { file, exportName }: ExportedGraph): Promise<Parsed> {
  const tsconfig = {
    file: path.join(path.dirname(file), "tsconfig.json"),
    text: JSON.stringify({ compilerOptions: FOR_NODE, files: [path.basename(file)] }),
  };
  const spec = { sourceFile: file, exportSymbol: exportName };
  const worker = new Worker(READ, { eval: true, workerData: { parser, spec, tsconfig } });
  const timer = setTimeout(() => void worker.terminate(), TIMEOUT_MS);
  try {
    return await new Promise<Parsed>((resolve, reject) => {
      worker.once("message", resolve).once("error", reject);
      worker.once("exit", () => reject(new Error("the parser ended without a word")));
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
