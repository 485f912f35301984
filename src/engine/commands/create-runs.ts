// Accepts several runs, each on a thread of its own: all of them or none.
import type { Deps } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import type { RunRow } from "../../runs/runs.js";
import { afterCreation, createRunIn, type CreatedRun, type CreateRunInput } from "./create-run.js";
import { type Once, runMadeBefore } from "./make-once.js";

export type MadeRuns = Readonly<{ runs: readonly RunRow[]; again: boolean }>;

/** `once`: a key for each of them. Fails as `createRun` does. */
export async function createRuns(
  deps: Deps,
  inputs: readonly CreateRunInput[],
  once: readonly Once[] | null,
): Promise<MadeRuns> {
  const before = await allMadeBefore(deps, once);
  if (before !== undefined) return { runs: before, again: true };
  const created = await deps.db.tx(async (sql) => {
    const made: CreatedRun[] = [];
    for (const [at, input] of inputs.entries()) {
      const runId = deps.ids.next<RunId>();
      const key = once?.[at];
      // Another request with the key is faster: it makes all of them.
      if (key !== undefined && !(await takeKey(sql, key, runId))) return undefined;
      const run = await createRunIn(deps, sql, input, runId);
      if ("waiting" in run) throw run.waiting;
      made.push(run);
    }
    return made;
  });
  if (created === undefined) return createRuns(deps, inputs, once);
  for (const each of created) afterCreation(deps, each);
  return { runs: created.map(({ run }) => run), again: false };
}

/** Undefined when none was: they are made together. */
export async function allMadeBefore(deps: Deps, once: readonly Once[] | null): Promise<RunRow[] | undefined> {
  if (once === null) return undefined;
  const runs: RunRow[] = [];
  for (const key of once) {
    const run = await runMadeBefore(deps, key);
    if (run === undefined) return undefined;
    runs.push(run);
  }
  return runs;
}
