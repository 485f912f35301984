// The graphs of an installation: loaded from the files langgraph.json names or handed over in process, with the version
// of each. What can't be used is refused at load, all of it at once, with the graph, file, export and cause.
import { createHash } from "node:crypto";
import type { BaseChannel, Pregel, PregelNode } from "@langchain/langgraph";
import { EngineError } from "../core/errors.js";
import { nearest } from "../core/nearest.js";
import { journalToolNodes } from "../effects/tool-nodes.js";
import { sourcesOf } from "./graph-modules.js";
import type { GraphSource } from "./langgraph-json.js";
import { importSource } from "./module-source.js";
import type { ExportedGraph } from "./static-schemas.js";
import { lacksFollowups, withFollowups } from "./with-followups.js";

/** A compiled graph, an agent's graph or a functional entrypoint: all of them are Pregel machines. */
export type RunnableGraph = Pregel<Record<string, PregelNode>, Record<string, BaseChannel>>;

/** What a graph factory gets: the config of the run or request it is asked for. */
export type GraphConfig = Readonly<{
  configurable?: Readonly<Record<string, unknown>>;
  metadata?: Readonly<Record<string, unknown>>;
  context?: unknown;
}>;

/** What a graph factory is told besides: what its graph is for, and the context of the run that it is to execute. */
export type GraphRuntime =
  | Readonly<{ accessContext: "threads.create_run"; executionRuntime: Readonly<{ context: unknown }> }>
  | Readonly<{ accessContext: "threads.read" | "threads.update" | "assistants.read"; executionRuntime: null }>;

const LOOKING: GraphRuntime = { accessContext: "assistants.read", executionRuntime: null };

export type Graphs = Readonly<{
  ids: readonly string[];
  has(graphId: string): boolean;
  /**
   * The graph, to be copied by `withConfig` before anything is set on it; a factory is called with `config` and `runtime`.
   * Throws `not_found` for an unknown id, `graph_invalid` when a factory fails or returns something else.
   */
  get(graphId: string, config?: GraphConfig, runtime?: GraphRuntime): Promise<RunnableGraph>;
  /** Whether a factory of the project's makes it, from the config that it is asked for with. */
  isMade(graphId: string): boolean;
  /** Changes when the graph's own source changes: 16 hex digits, or what was given to `graphsFrom`. */
  version(graphId: string): string;
  description(graphId: string): string | null;
  /** Where it comes from; null for one that was handed over in process. */
  exported(graphId: string): ExportedGraph | null;
  /** The source files the graphs were made from, absolute, for watching. */
  files: readonly string[];
}>;

type Factory = (config: GraphConfig, runtime: GraphRuntime) => unknown;
type Entry = Readonly<{
  make: Factory;
  isMade: boolean;
  followups: boolean;
  version: string;
  description: string | null;
  source: GraphSource | null;
  files: readonly string[];
}>;

/** What of their policies graphs are made with. */
type PolicyOfGraph = (graphId: string) => Readonly<{ followups: boolean }>;
const PLAIN: PolicyOfGraph = () => ({ followups: false });

/**
 * Loads graphs from their files (TypeScript or JavaScript).
 *
 * @example const graphs = await loadGraphs((await readProject("langgraph.json")).graphs);
 */
export async function loadGraphs(
  sources: readonly GraphSource[],
  { policyOf = PLAIN, onLoad }: Readonly<{ policyOf?: PolicyOfGraph; onLoad?: (source: GraphSource) => void }> = {},
): Promise<Graphs> {
  const entries = new Map<string, Entry>();
  const problems: string[] = [];
  const causes: unknown[] = [];
  // One after the other: modules that are imported twice at once would share one error.
  for (const source of sources) {
    onLoad?.(source);
    try {
      entries.set(source.id, await load(source, policyOf(source.id)));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      problems.push(error.message);
      causes.push(error.cause);
    }
  }
  if (problems.length > 0) {
    throw new EngineError("graph_invalid", problems.join("\n"), { cause: causes[0], details: { problems } });
  }
  return graphsOf(entries);
}

/**
 * Graphs that are in this process already: compiled or not, agents, entrypoints, factories.
 *
 * @example const graphs = graphsFrom({ agent: new StateGraph(State).addNode(…) });
 */
export function graphsFrom(
  record: Readonly<Record<string, unknown>>,
  { version = "in-process", policyOf = PLAIN }: Readonly<{ version?: string; policyOf?: PolicyOfGraph }> = {},
): Graphs {
  const entries = Object.entries(record).map(([id, value]): [string, Entry] => {
    const { followups } = policyOf(id);
    const make = asFactory(value, `graph "${id}"`, followups);
    if (make === null) throw new EngineError("graph_invalid", `graph "${id}" is ${describe(value)}; ${WANTED}`);
    return [id, { make, isMade: isFactory(value), followups, version, description: null, source: null, files: [] }];
  });
  return graphsOf(new Map(entries));
}

function graphsOf(entries: ReadonlyMap<string, Entry>): Graphs {
  const ids = [...entries.keys()];
  const find = (graphId: string): Entry => {
    const entry = entries.get(graphId);
    if (entry !== undefined) return entry;
    const guess = nearest(graphId, ids);
    const hint = guess === null ? `there are: ${ids.join(", ")}` : `did you mean "${guess}"?`;
    throw new EngineError("not_found", `Graph "${graphId}" not found; ${hint}`, { details: { graph_id: graphId } });
  };
  return {
    ids,
    has: (graphId) => entries.has(graphId),
    get: async (graphId, config = {}, runtime = LOOKING) => made(graphId, find(graphId), config, runtime),
    isMade: (graphId) => find(graphId).isMade,
    version: (graphId) => find(graphId).version,
    description: (graphId) => find(graphId).description,
    exported: (graphId) => {
      const { source, version } = find(graphId);
      return source && { file: source.file, exportName: source.exportName, version };
    },
    files: [...new Set([...entries.values()].flatMap((entry) => entry.files))],
  };
}

const WANTED =
  "export a compiled graph, a StateGraph, an agent of createAgent, an entrypoint, or a function that makes one";

async function load(source: GraphSource, { followups }: ReturnType<PolicyOfGraph>): Promise<Entry> {
  const where = `graph "${source.id}" (${source.file}, export "${source.exportName}")`;
  const value = await importSource(source, where);
  let make: Factory | null;
  let isMade = false;
  try {
    // A graph that takes awaiting to make may be exported as its promise.
    const awaited = await Promise.resolve(value);
    isMade = isFactory(awaited);
    make = asFactory(awaited, where, followups);
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    throw new EngineError("graph_invalid", `${where} can't be compiled: ${causeText(cause)}`, { cause });
  }
  if (make === null) throw new EngineError("graph_invalid", `${where} is ${describe(value)}; ${WANTED}`);
  const sources = await sourcesOf(source.file);
  const files = sources.map(({ file }) => file);
  return { make, isMade, followups, version: hash(sources), description: source.description, source, files };
}

function isFactory(value: unknown): value is Factory {
  return typeof value === "function" && !isGraph(value);
}

/** What makes the graph: the graph itself compiled once, or the user's function called for each config. Null: none. */
function asFactory(value: unknown, where: string, followups: boolean): Factory | null {
  if (isFactory(value)) return value;
  const graph = compiled(value, where, followups);
  return graph === null ? null : () => graph;
}

async function made(
  graphId: string,
  { make, followups }: Entry,
  config: GraphConfig,
  runtime: GraphRuntime,
): Promise<RunnableGraph> {
  let value: unknown;
  try {
    value = await make(config, runtime);
  } catch (cause) {
    throw new EngineError("graph_invalid", `the factory of graph "${graphId}" threw ${causeText(cause)}`, { cause });
  }
  const graph = compiled(value, `graph "${graphId}"`, followups);
  if (graph !== null) return graph;
  throw new EngineError("graph_invalid", `the factory of graph "${graphId}" returned ${describe(value)}; ${WANTED}`);
}

const ready = new WeakSet<object>();

/** As it is run: its tool nodes write down what they call. */
function compiled(value: unknown, where: string, followups: boolean): RunnableGraph | null {
  const graph = graphOf(followups ? withFollowups(value) : value);
  const lacking = graph === null || !followups ? null : lacksFollowups(graph);
  if (lacking !== null) throw new EngineError("graph_invalid", `${where} ${lacking}`);
  if (graph === null || ready.has(graph)) return graph;
  journalToolNodes(graph);
  ready.add(graph);
  return graph;
}

// By shape, not by instanceof: a project has its own copy of LangGraph.
function graphOf(value: unknown): RunnableGraph | null {
  if (isGraph(value)) return value;
  if (typeof value !== "object" || value === null) return null;
  const { graph, compile } = value as { graph?: unknown; compile?: unknown };
  if (isGraph(graph)) return graph;
  if (typeof compile !== "function") return null;
  const result: unknown = compile.call(value);
  return isGraph(result) ? result : null;
}

function isGraph(value: unknown): value is RunnableGraph {
  return (value as { lg_is_pregel?: unknown } | null | undefined)?.lg_is_pregel === true;
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  const name = value.constructor?.name;
  return name === undefined || name === "Object" ? "a plain object" : `a ${name}`;
}

function causeText(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message.split("\n")[0]}` : String(cause);
}

function hash(sources: readonly Readonly<{ name: string; text: string }>[]): string {
  const sum = createHash("sha256");
  for (const { name, text } of sources) sum.update(`${name}\0${text.length}\0${text}`);
  return sum.digest("hex").slice(0, 16);
}
