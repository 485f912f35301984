// Where a project's own code is, as langgraph.json names it: a file or a package, and what it exports.
import { stat } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { resolve as resolvePackage } from "import-meta-resolve";
import { EngineError } from "../core/errors.js";
import { importGraphModule } from "./graph-modules.js";

export type ModuleSource = Readonly<{
  /** Absolute. */
  file: string;
  exportName: string;
  /** Why there is nothing to load. */
  missing?: string;
}>;

/**
 * Finds what `spec` names: `./file.ts:name`, `file.ts:name` or `package/sub:name`, seen from `dir`. A file comes before a package of the same
 * name; without a name it is the default export.
 */
export async function moduleSource(dir: string, spec: string): Promise<ModuleSource> {
  // The last colon, unless it is a drive letter's.
  const colon = spec.lastIndexOf(":");
  const hasExport = colon > 1;
  const name = hasExport ? spec.slice(0, colon) : spec;
  const exportName = hasExport ? spec.slice(colon + 1) : "default";
  const file = path.resolve(dir, name);
  if (isPath(name) || (await isFile(file))) return { file, exportName };
  const ofPackage = packageFile(dir, name);
  if (ofPackage !== null) return { file: ofPackage, exportName };
  return { file, exportName, missing: `there is no such file, and no package ${JSON.stringify(name)} is installed` };
}

/** Imports it and gives the export; throws `graph_invalid` saying what is wrong with `where`. */
export async function importSource({ file, exportName, missing }: ModuleSource, where: string): Promise<unknown> {
  if (missing !== undefined) throw new EngineError("graph_invalid", `${where} can't be loaded: ${missing}`);
  return exportOf(await importGraphModule(file, where), exportName, where);
}

function exportOf(module: Readonly<Record<string, unknown>>, name: string, where: string): unknown {
  // A CommonJS module's exports are all under "default" when it is imported.
  const commonjs = module.default as Readonly<Record<string, unknown>> | null | undefined;
  const value = module[name] ?? (typeof commonjs === "object" ? commonjs?.[name] : undefined) ?? module[name];
  if (value !== undefined) return value;
  const names = Object.keys(module).filter((key) => key !== "default" || typeof commonjs !== "object");
  const there = names.length === 0 ? "the file exports nothing" : `the file exports ${names.sort().join(", ")}`;
  throw new EngineError("graph_invalid", `${where} does not exist; ${there}`);
}

const isPath = (name: string): boolean => name.startsWith(".") || path.isAbsolute(name);

async function isFile(file: string): Promise<boolean> {
  return (await stat(file).catch(() => null))?.isFile() === true;
}

/** As an import statement in `dir` would find it; null: it wouldn't. */
export function packageFile(dir: string, name: string): string | null {
  try {
    const url = resolvePackage(name, pathToFileURL(path.join(dir, "langgraph.json")).href);
    return url.startsWith("file:") ? fileURLToPath(url) : null;
  } catch {
    return null;
  }
}
