// The versions this process runs: ours and LangGraph's.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

export type Versions = Readonly<{ perdure: string; langgraph: string }>;

export function readVersions(): Versions {
  const own = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const langgraph: unknown = createRequire(import.meta.url)("@langchain/langgraph/package.json");
  return { perdure: versionIn(JSON.parse(own)), langgraph: versionIn(langgraph) };
}

function versionIn(manifest: unknown): string {
  return String((manifest as { version?: unknown }).version);
}
