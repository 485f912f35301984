// Which states a policy keeps, and how the policy is written.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { type PlanOptions, type StateNode, statesToKeep } from "../../src/checkpoint/prune/plan.js";
import { readProject } from "../../src/engine/langgraph-json.js";

let seq = 0;
function state(checkpointId: string, parentId: string | null, more: Partial<StateNode> = {}): StateNode {
  const rest = { runId: null, source: "loop", createdAt: new Date(0), parents: {}, deltas: [], deltasVersioned: true };
  return { ns: "", checkpointId, parentId, seq: seq++, prunedTo: null, ...rest, ...more };
}
const keep = (nodes: readonly StateNode[], options: Partial<PlanOptions> = {}) =>
  [...statesToKeep(nodes, { keepLatest: 1, mayGo: () => true, pinned: new Set(), ...options })].sort();

const chain = () => [state("a", null), state("b", "a"), state("c", "b"), state("d", "c"), state("f", "b")];

it("of each branch the newest stay, and what is pinned or may not go", () => {
  expect(keep(chain())).toEqual(["d", "f"]);
  expect(keep(chain(), { keepLatest: 2 })).toEqual(["b", "c", "d", "f"]);
  expect(keep(chain(), { pinned: new Set(["a"]) })).toEqual(["a", "d", "f"]);
  expect(keep(chain(), { mayGo: ({ checkpointId }) => checkpointId < "c" })).toEqual(["c", "d", "f"]);
});

it("what was kept is kept again, and nothing else", () => {
  const left = chain().filter(({ checkpointId }) => ["d", "f"].includes(checkpointId));
  expect(keep(left)).toEqual(["d", "f"]);
});

it("a subgraph's states stay with the root state they ran under, a lasting one's where it would go on", () => {
  const nodes = [
    state("a", null),
    state("x1", null, { ns: "sub:1", parents: { "": "a" } }),
    state("l1", null, { ns: "lasting", parents: { "": "a" } }),
    state("b", "a"),
    state("l2", "l1", { ns: "lasting", parents: { "": "b" } }),
    state("c", "b"),
    state("y1", null, { ns: "sub:2", parents: { "": "c" } }),
    state("y2", "y1", { ns: "sub:2", parents: { "": "c" } }),
    state("z1", null, { ns: "sub:2|in:3", parents: { "": "c", "sub:2": "y1" } }),
    state("z2", null, { ns: "sub:2|in:4", parents: { "": "c", "sub:2": "y2" } }),
  ];
  expect(keep(nodes)).toEqual(["c", "l2", "y2", "z2"]);
  // A fork of b goes on with what the lasting subgraph remembered before b.
  const fork = state("f", "b", { source: "fork" });
  expect(keep([...nodes, fork])).toEqual(["c", "f", "l1", "l2", "y2", "z2"]);
});

it("langgraph.json says it, and what can't be meant is refused by name", async () => {
  const dir = await mkdtemp(path.join(os.tmpdir(), "perdure-retention-"));
  const file = path.join(dir, "langgraph.json");
  const read = async (retention: unknown) => {
    await writeFile(file, JSON.stringify({ graphs: { a: "./a.ts:graph" }, perdure: { retention } }));
    return (await readProject(file)).settings.retention;
  };
  try {
    expect(await read(undefined)).toBeNull();
    expect(
      await read({ checkpoints: { olderThan: "30d", outcomes: ["success"] }, runs: { olderThan: "12w" } }),
    ).toEqual({
      checkpoints: { keepLatest: 1, olderThanMs: 2_592_000_000, outcomes: ["success"], graphIds: null },
      runs: { olderThanMs: 7_257_600_000 },
    });
    await expect(read({ checkpoints: {} })).rejects.toThrow('"perdure.retention.checkpoints": must say what to keep');
    await expect(read({ checkpoints: { olderThan: "soon" } })).rejects.toThrow('like "12h", "30d" or "8w"');
    await expect(read({ checkpoints: { keepLast: 1 } })).rejects.toThrow(
      'did you mean "perdure.retention.checkpoints.keepLatest"?',
    );
  } finally {
    await rm(dir, { recursive: true });
  }
});
