// `perdure dev` loads graphs that were edited, whenever that was.
import { mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { followGraphs } from "../../src/cli/dev/follow-graphs.js";
import { until } from "../helpers/wait.js";

it("an edit made while the processes still start is loaded, one from before is not loaded again", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "perdure-follow-"));
  const file = path.join(folder, "graph.ts");
  const configPath = path.join(folder, "langgraph.json");
  await writeFile(file, "export const graph = 1;");
  await writeFile(configPath, JSON.stringify({ graphs: { agent: "./graph.ts:graph" } }));
  const report = { graphs: [], files: [file] };
  const startedAt = Date.now();
  const follow = async (editedAt: number) => {
    let reloads = 0;
    let checks = 0;
    await utimes(file, editedAt / 1000, editedAt / 1000);
    const check = () => Promise.resolve(((checks += 1), { ok: true as const, report }));
    const out = { line: () => {}, note: () => {} };
    const options = { configPath, first: report, firstAtMs: startedAt, check, out };
    const take = () => Promise.resolve(void (reloads += 1));
    const following = followGraphs(options, { prepare: () => ({ take, drop: () => Promise.resolve() }) });
    return { following, reloads: () => reloads, checks: () => checks };
  };
  try {
    const late = await follow(startedAt + 5_000);
    await until("the reload", () => late.reloads() > 0);
    await late.following.close();
    const early = await follow(startedAt - 5_000);
    await early.following.close();
    expect(early.checks()).toBe(0);
  } finally {
    await rm(folder, { recursive: true });
  }
});
