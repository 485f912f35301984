// Loads changed graphs: when a file changes, the graphs are tried in a process of their own, while others come up with them; only if
// they load do the running processes make way for these.
import { stat } from "node:fs/promises";
import { readProject } from "../../engine/langgraph-json.js";
import { namedFiles } from "../../engine/module-files.js";
import type { Output } from "../output.js";
import type { GraphCheck, GraphReport } from "./check-graphs.js";
import type { Successor } from "./child.js";
import { watchFiles } from "./watch.js";

export type FollowOptions = Readonly<{
  configPath: string;
  first: GraphReport;
  /** When it was begun to be made, by this machine's clock. */
  firstAtMs: number;
  check(): Promise<GraphCheck>;
  out: Output;
}>;

export function followGraphs(
  options: FollowOptions,
  processes: Readonly<{ prepare(): Successor }>,
): { close(): Promise<void> } {
  const { out } = options;
  let files = options.first.files;
  let working: Promise<void> = Promise.resolve();
  let closed = false;

  const onChange = () => {
    working = working.then(reload);
  };
  const watcher = watchFiles(onChange);
  const watchAll = async () => watcher.set([...files, ...(await projectFiles(options.configPath))]);

  const reload = async () => {
    if (closed) return;
    const next = processes.prepare();
    const result = await options.check();
    if (closed || !result.ok) await next.drop();
    if (closed) return;
    if (result.ok) {
      files = result.report.files;
      out.note(`perdure: files changed, starting again with ${result.report.graphs.map(({ id }) => id).join(", ")}`);
      await next.take();
    } else {
      out.note(
        `perdure: files changed and can't be used; what runs goes on with the graphs as they were\n${result.problem}`,
      );
    }
    await watchAll();
  };

  // What was edited since, while the processes started, nobody has told us.
  working = watchAll().then(async () => {
    if (await changedSince(files, options.firstAtMs)) onChange();
  });
  return {
    async close() {
      closed = true;
      watcher.close();
      await working;
    },
  };
}

async function changedSince(files: readonly string[], atMs: number): Promise<boolean> {
  const times = await Promise.all(files.map(async (file) => (await stat(file).catch(() => undefined))?.mtimeMs ?? 0));
  return times.some((time) => time > atMs);
}

/** langgraph.json and what it names, whether or not that can be loaded: the next edit may mend it. */
async function projectFiles(configPath: string): Promise<readonly string[]> {
  try {
    const project = await readProject(configPath);
    return [
      project.path,
      ...project.graphs.map(({ file }) => file),
      ...namedFiles(project),
      ...(project.envFile === null ? [] : [project.envFile]),
    ];
  } catch {
    return [configPath];
  }
}
