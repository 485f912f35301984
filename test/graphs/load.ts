// Loads an example graph the way a user's langgraph.json names it, scripted and without pauses.
import { readFile } from "node:fs/promises";
import { MemorySaver, type Pregel } from "@langchain/langgraph";

export type Graph = Pregel<never, never>;
// An agent of createAgent keeps its graph in a property.
type Exported = Graph | Readonly<{ graph: Graph }>;
type LanggraphJson = Readonly<{ graphs: Readonly<Record<string, string>> }>;

/** What langgraph.json exports as `id`. */
export async function loadExample(id: string): Promise<Exported> {
  delete process.env["ANTHROPIC_API_KEY"];
  process.env["SCRIPT_WORD_MS"] = "0";
  process.env["SHOP_MS"] = "0";
  const root = new URL("../../", import.meta.url);
  const config = JSON.parse(await readFile(new URL("langgraph.json", root), "utf8")) as LanggraphJson;
  const [file = "", name = ""] = (config.graphs[id] ?? "").split(":");
  const exported = ((await import(new URL(file, root).href)) as Record<string, Exported>)[name];
  if (exported === undefined) throw new Error(`langgraph.json names no graph "${id}"`);
  return exported;
}

/** The compiled graph `id`, by itself, on a saver in memory. */
export async function loadInMemory(id: string): Promise<Graph> {
  const exported = await loadExample(id);
  const graph = "graph" in exported ? exported.graph : exported;
  graph.checkpointer = new MemorySaver();
  return graph;
}
