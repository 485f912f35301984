// `perdure graphs`: loads the graphs and lists them. `perdure dev` asks this before it lets an edited graph run.
import type { PolicyOf } from "../core/policy.js";
import { refuseUnfitEdgeGraphs } from "../engine/edge.js";
import type { Graphs } from "../engine/graphs.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

/** Throws `graph_invalid` when one can't run in its mode. */
export async function graphsLs(
  graphs: Graphs,
  policyOf: PolicyOf,
  otherFiles: readonly string[],
  print: Output & Readonly<{ json: boolean }>,
): Promise<void> {
  await refuseUnfitEdgeGraphs(graphs, policyOf);
  const rows = graphs.ids.map((id) => ({
    id,
    mode: policyOf(id).mode,
    version: graphs.version(id),
    description: graphs.description(id),
  }));
  print.line(
    print.json
      ? json({ graphs: rows, files: [...new Set([...graphs.files, ...otherFiles])] })
      : table(rows, "There are no graphs."),
  );
}
