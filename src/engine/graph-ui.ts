// Components that a graph's runs name for the client to show (`ui` of langgraph.json), built for browsers by LangGraph's own builder, which
// a project that has some has installed.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { build } from "@langchain/langgraph-ui";
import { EngineError } from "../core/errors.js";
import type { Project } from "./langgraph-json.js";
import { packageFile } from "./module-source.js";

/** Files of one graph, by name. */
export type UiFiles = ReadonlyMap<string, Uint8Array>;
/** By graph. */
export type UiBundles = ReadonlyMap<string, UiFiles>;

type Builder = Readonly<{ build: typeof build }>;
type Sources = Pick<Project, "dir" | "ui">;

const BUILDER = "@langchain/langgraph-ui";

/** Throws `config_invalid` for what can't be built. */
export async function buildUi(project: Sources): Promise<UiBundles> {
  const graphIds = Object.keys(project.ui.files);
  if (graphIds.length === 0) return new Map();
  const builder = await loadBuilder(project.dir);
  return new Map(await Promise.all(graphIds.map(async (id) => [id, await filesOf(builder, project, id)] as const)));
}

/** It writes into a folder of ours, from which they are read. */
async function filesOf({ build }: Builder, { dir, ui }: Sources, graphId: string): Promise<UiFiles> {
  const userPath = ui.files[graphId] ?? "";
  const output = await mkdtemp(path.join(tmpdir(), "perdure-ui-"));
  try {
    await build({ cwd: dir, defs: { [graphId]: userPath }, config: { shared: [...ui.shared] }, output });
    const folder = path.join(output, "public", graphId);
    const names = await readdir(folder);
    return new Map(
      await Promise.all(names.map(async (name) => [name, await readFile(path.join(folder, name))] as const)),
    );
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const where = `"ui" of ${graphId} (${path.resolve(dir, userPath)})`;
    throw new EngineError("config_invalid", `${where} can't be built: ${message}`, { cause });
  } finally {
    await rm(output, { recursive: true, force: true });
  }
}

/** The project's own, or one installed beside this package. */
async function loadBuilder(dir: string): Promise<Builder> {
  const own = packageFile(dir, BUILDER);
  try {
    return own === null
      ? await import("@langchain/langgraph-ui")
      : ((await import(pathToFileURL(own).href)) as Builder);
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    const message = `"ui" is built by ${BUILDER}, which isn't installed: npm install --save-dev ${BUILDER}`;
    throw new EngineError("config_invalid", message, { cause });
  }
}
