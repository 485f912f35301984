// Schemas of graphs that are typed only in TypeScript: read from their sources by the parser of `@langchain/langgraph-api`, where the
// project has that. It takes seconds, in a thread of its own, and is done once for each version of a graph.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
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

async function parse({ file, exportName }: ExportedGraph): Promise<StaticSchemas> {
  const place = createRequire(file).resolve(PARSER);
  const { getStaticGraphSchema } = (await import(pathToFileURL(place).href)) as Parser;
  const parsed = await getStaticGraphSchema({ sourceFile: file, exportSymbol: exportName }, { timeoutMs: TIMEOUT_MS });
  return new Map(
    Object.entries(parsed).map(([name, { state, input, output, config }]) => [
      name.split("|").slice(1).join("|"),
      { state: state ?? null, input: input ?? null, output: output ?? null, config: config ?? null },
    ]),
  );
}
