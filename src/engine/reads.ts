// What many requests ask for at the same time, asked with one statement: a run, and the state it ended in.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { LRUCache } from "lru-cache";
import type { BodyReader } from "../checkpoint/body-reader.js";
import { readTuplesById } from "../checkpoint/read-tuples.js";
import { batched, type Round } from "../core/batch.js";
import type { Deps } from "../core/deps.js";
import { isBodyLost } from "../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import { getRuns, type RunOfThread } from "../runs/runs.js";

export type RunKey = Readonly<{ tenantId: TenantId; runId: RunId }>;
export type CheckpointKey = Readonly<{ tenantId: TenantId; threadId: ThreadId; checkpointId: string }>;

export type Reads = Readonly<{
  run(key: RunKey): Promise<RunOfThread | undefined>;
  /** Whether the run was heard to end a moment ago. It listens from the first call on, and so that one says true. */
  heardEnd(runId: RunId): boolean;
  /** A checkpoint of a root graph. Throws `body_missing` or `body_corrupt` when what it needs can't be read. */
  checkpoint(key: CheckpointKey): Promise<CheckpointTuple | undefined>;
}>;

/** So many with one statement at most. */
const RUNS_AT_ONCE = 100;
const CHECKPOINTS_AT_ONCE = 16;
const HEARD = { max: 10_000, ttl: 10_000 };

export function createReads({ db, notifier }: Pick<Deps, "db" | "notifier">, bodies: BodyReader): Reads {
  let ended: LRUCache<string, true> | undefined;
  return {
    run: batched<RunKey, RunOfThread | undefined>(RUNS_AT_ONCE, (keys) => getRuns(db, keys)),
    heardEnd(runId) {
      if (ended !== undefined) return ended.has(runId);
      const heard = new LRUCache<string, true>(HEARD);
      notifier.listen("ended", (id) => void (id !== undefined && heard.set(id, true)));
      ended = heard;
      return true;
    },
    // One that can't be read must not hide the others.
    checkpoint: batched<CheckpointKey, CheckpointTuple | undefined>(
      CHECKPOINTS_AT_ONCE,
      checkpointsOf(db, bodies),
      isBodyLost,
    ),
  };
}

/** With a statement for each tenant. */
function checkpointsOf(db: Deps["db"], bodies: BodyReader): Round<CheckpointKey, CheckpointTuple | undefined> {
  return async (keys) => {
    const found = new Map<CheckpointKey, CheckpointTuple | undefined>();
    for (const tenantId of new Set(keys.map((key) => key.tenantId))) {
      const own = keys.filter((key) => key.tenantId === tenantId);
      const tuples = await readTuplesById({ sql: db, tenantId, bodies }, own);
      own.forEach((key, i) => found.set(key, tuples[i]));
    }
    return keys.map((key) => found.get(key));
  };
}
