// Projects for tests of the command line: a folder with a langgraph.json and graph files, as a user has one.
import { chmod, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";

const MODULES = fileURLToPath(new URL("../../node_modules", import.meta.url));

/** One node that says `n`. */
export const graphSource = (n: number): string => `
import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ n: Annotation<number> });
export const graph = new StateGraph(State).addNode("say", () => ({ n: ${n} })).addEdge("__start__", "say");
`;

const folders: string[] = [];

/** A new project; gone after the test file. */
export async function createProject(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const dir = await mkdtemp(path.join(os.tmpdir(), "perdure-project-"));
  folders.push(dir);
  await chmod(dir, 0o755);
  const all = {
    "package.json": `{"type":"module"}`,
    "langgraph.json": `{"graphs":{"agent":"./graph.ts:graph"}}`,
    "graph.ts": graphSource(1),
    ...files,
  };
  for (const [name, content] of Object.entries(all)) await writeFile(path.join(dir, name), content);
  await symlink(MODULES, path.join(dir, "node_modules"));
  return dir;
}

afterAll(async () => {
  for (const dir of folders.splice(0)) await rm(dir, { recursive: true, force: true });
});
