// The user's modules: how a graph file is imported (TypeScript through tsx) and which files of the project it is made of.
import { readFile, stat } from "node:fs/promises";
import Module, { register as registerHooks } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { EngineError } from "../core/errors.js";
import { provideGraphLogger } from "../observe/graph-log.js";

let registered: Promise<void> | null = null;

/** Imports a graph file; throws `graph_invalid` saying what is wrong with `where`. */
export async function importGraphModule(file: string, where: string): Promise<Readonly<Record<string, unknown>>> {
  const info = await stat(file).catch(() => null);
  if (info === null || !info.isFile()) {
    const what = info === null ? "there is no such file" : "it is not a file";
    throw new EngineError("graph_invalid", `${where} can't be loaded: ${what}`);
  }
  registered ??= registerTypeScript();
  await registered;
  provideGraphLogger();
  try {
    return (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new EngineError("graph_invalid", `${where} threw on import: ${importError(cause, file)}`, { cause });
  }
}

// A graph's import of "perdure" is this very installation, whatever the project or its tsconfig paths would find: two
// copies would not know each other's runs.
const OWN = new URL(`../index${path.extname(import.meta.url)}`, import.meta.url).href;

async function registerTypeScript(): Promise<void> {
  const [esm, cjs] = await Promise.all([import("tsx/esm/api"), import("tsx/cjs/api")]);
  esm.register();
  cjs.register();
  const hook = `export const resolve = (name, context, next) =>
    name === "perdure" ? { url: ${JSON.stringify(OWN)}, shortCircuit: true } : next(name, context);`;
  registerHooks(`data:text/javascript,${encodeURIComponent(hook)}`);
  // In a project without "type": "module" tsx turns imports into calls of require, which know no such hook.
  const own: unknown = await import(OWN);
  const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown };
  const load = loader._load.bind(loader);
  loader._load = (name, ...rest) => (name === "perdure" ? own : load(name, ...rest));
}

function importError(cause: unknown, file: string): string {
  if (!(cause instanceof Error)) return `a ${typeof cause} that is no Error`;
  const text = cause.message.split("\n").slice(0, 3).join(" ").trim();
  const frame = new RegExp(`${path.basename(file).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}:(\\d+)`).exec(
    cause.stack ?? "",
  );
  return `${cause.name}: ${text}${frame === null ? "" : ` (line ${frame[1]})`}`;
}

type SourceFile = Readonly<{ file: string; name: string; text: string }>;

const RELATIVE_IMPORT = /(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*(["'])(\.{1,2}\/[^"'\n]+)\1/g;

/** A graph file and the files of the project it imports by relative paths, in a stable order. */
export async function sourcesOf(entry: string): Promise<readonly SourceFile[]> {
  const found = new Map<string, SourceFile>();
  const queue = [entry];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (found.has(file)) continue;
    const text = await readFile(file, "utf8").catch(() => null);
    if (text === null) continue;
    found.set(file, { file, name: path.relative(path.dirname(entry), file), text });
    for (const match of text.matchAll(RELATIVE_IMPORT)) {
      const target = await resolveRelative(path.resolve(path.dirname(file), match[2] ?? ""));
      if (target !== null) queue.push(target);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

// As TypeScript resolves: the file as named, a .js that is a .ts, a missing extension, a folder's index.
async function resolveRelative(target: string): Promise<string | null> {
  const bare = target.replace(/\.[cm]?jsx?$/, "");
  const extensions = [".ts", ".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs", ".jsx", ".json"];
  const candidates = [
    target,
    ...extensions.map((extension) => `${bare}${extension}`),
    ...extensions.map((extension) => `${target}${extension}`),
    ...extensions.map((extension) => path.join(target, `index${extension}`)),
  ];
  for (const candidate of candidates) {
    if ((await stat(candidate).catch(() => null))?.isFile() === true) return candidate;
  }
  return null;
}
