// Which files a project's own code is made of, besides its graphs: for whoever watches them.
import path from "node:path";
import { sourcesOf } from "./graph-modules.js";
import type { Project } from "./langgraph-json.js";

type Named = Pick<Project, "dir" | "auth" | "http" | "channels" | "ui" | "storeIndex">;

/** The files that langgraph.json names, absolute. */
export function namedFiles({ dir, auth, http, channels, ui, storeIndex }: Named): string[] {
  const embed = storeIndex?.source ?? null;
  const modules = [
    ...(auth === null ? [] : [auth.source]),
    ...(embed === null ? [] : [embed]),
    ...http.apps.map(({ source }) => source),
    ...channels,
  ];
  return [...modules.map(({ file }) => file), ...Object.values(ui.files).map((file) => path.resolve(dir, file))];
}

/** Those, and what they import by relative paths. */
export async function moduleFiles(project: Named): Promise<string[]> {
  const sources = await Promise.all(namedFiles(project).map(sourcesOf));
  return sources.flat().map(({ file }) => file);
}
