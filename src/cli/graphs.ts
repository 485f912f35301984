// `perdure graphs`: loads the graphs and lists them. `perdure dev` asks this before it lets an edited graph run.
import type { Graphs } from "../engine/graphs.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

export function graphsLs(graphs: Graphs, print: Output & Readonly<{ json: boolean }>): void {
  const rows = graphs.ids.map((id) => ({
    id,
    version: graphs.version(id),
    description: graphs.description(id),
  }));
  print.line(print.json ? json({ graphs: rows, files: graphs.files }) : table(rows, "There are no graphs."));
}
