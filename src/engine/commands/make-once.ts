// Requests that may come again (Idempotency-Key): the key is taken in the transaction that makes what it is for, so that of
// many at once, in any process, one makes it and all others find it.
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId } from "../../core/ids.js";
import { giveKeyBack, madeWithKey, pointKey, type RequestKey, takeKey } from "../../runs/idempotency-keys.js";
import { getRun, type RunRow } from "../../runs/runs.js";
import { afterCreation, createRun, createRunIn, type CreateRunInput } from "./create-run.js";

/** `name`: what the caller calls it, for messages. */
export type Once = RequestKey & Readonly<{ name: string }>;

/** `again`: an earlier request has made it. */
export type MadeRun = Readonly<{ run: RunRow; again: boolean }>;

/** Like `createRun`, and fails like it. Throws `conflict` when the key was another request's, `expired` when its run is gone. */
export async function createRunOnce(deps: Deps, input: CreateRunInput, once: Once | null): Promise<MadeRun> {
  if (once === null) return { run: await createRun(deps, input), again: false };
  const runId = deps.ids.next<RunId>();
  const created = await deps.db.tx(async (sql) => {
    if (!(await takeKey(sql, once, runId))) return undefined;
    const made = await createRunIn(deps, sql, input, runId);
    // A vote is counted, and no run made: whoever asks again is to be told the same.
    if ("waiting" in made) await giveKeyBack(sql, once, runId);
    // It has joined a run that was there.
    else if (made.run.runId !== runId) await pointKey(sql, once, made.run.runId);
    return made;
  });
  if (created === undefined) return createRunOnceMore(deps, input, once);
  if ("waiting" in created) throw created.waiting;
  afterCreation(deps, created);
  return { run: created.run, again: false };
}

/** The key was taken, but may have been given back meanwhile. */
async function createRunOnceMore(deps: Deps, input: CreateRunInput, once: Once): Promise<MadeRun> {
  const run = await runMadeBefore(deps, once);
  return run === undefined ? createRunOnce(deps, input, once) : { run, again: true };
}

/** The run an earlier request with this key has made. Throws `conflict` and `expired` as `createRunOnce` does. */
export async function runMadeBefore(deps: Deps, once: Once): Promise<RunRow | undefined> {
  const { tenantId } = once;
  return findMadeBefore(deps.db, once, "run", (runId) => getRun(deps.db, { tenantId, runId: runId as RunId }));
}

/**
 * What an earlier request with this key has made, as `find` finds it by its id; `kind` is what messages call it. Throws `conflict` when that
 * was another request, `expired` when what it made is gone.
 */
export async function findMadeBefore<T>(
  sql: Sql,
  once: Once,
  kind: string,
  find: (id: string) => Promise<T | undefined>,
): Promise<T | undefined> {
  const madeId = await madeBefore(sql, once);
  if (madeId === undefined) return undefined;
  const found = await find(madeId);
  if (found === undefined) throw madeAndGone(once, `${kind} ${madeId}`);
  return found;
}

/** The id of what an earlier request with this key has made. Throws `conflict` when that was another request. */
export async function madeBefore(sql: Sql, once: Once): Promise<string | undefined> {
  const made = await madeWithKey(sql, once);
  if (made === undefined || made.sameRequest) return made?.madeId;
  throw new EngineError(
    "conflict",
    `Idempotency-Key ${JSON.stringify(once.name)} was used for another request here, which made ${made.madeId}; take a new key`,
    { details: { idempotency_key: once.name, made_id: made.madeId } },
  );
}

/** Takes the key for what the caller's transaction makes. Throws `conflict` when a request under way was first. */
export async function takeOnce(sql: Sql, once: Once | null, madeId: string): Promise<void> {
  if (once === null || (await takeKey(sql, once, madeId))) return;
  throw new EngineError(
    "conflict",
    `A request with Idempotency-Key ${JSON.stringify(once.name)} was faster; ask again for what it made`,
    { details: { idempotency_key: once.name } },
  );
}

export function madeAndGone(once: Once, what: string): EngineError {
  return new EngineError(
    "expired",
    `Idempotency-Key ${JSON.stringify(once.name)} has made ${what}, which is deleted; take a new key to make another`,
  );
}
