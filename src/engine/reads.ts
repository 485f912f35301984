// What many requests ask for at the same time, asked with one statement: a run, and the state it ended in.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { LRUCache } from "lru-cache";
import type { BodyReader } from "../checkpoint/body-reader.js";
import { readTuplesById } from "../checkpoint/read-tuples.js";
import { batched } from "../core/batch.js";
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
  const checkpointsOf = async (tenantId: TenantId, keys: readonly CheckpointKey[]): Promise<Answer[]> => {
    const read = { sql: db, tenantId, bodies };
    try {
      return (await readTuplesById(read, keys)).map((tuple) => ({ tuple }));
    } catch (error) {
      if (!isBodyLost(error)) throw error;
      // One that can't be read must not hide the others.
      if (keys.length === 1) return [{ error: error }];
      return (await Promise.all(keys.map((key) => checkpointsOf(tenantId, [key])))).flat();
    }
  };
  const checkpoint = batched<CheckpointKey, Answer>(CHECKPOINTS_AT_ONCE, async (keys) => {
    const answers = new Map<CheckpointKey, Answer>();
    for (const tenantId of new Set(keys.map((key) => key.tenantId))) {
      const own = keys.filter((key) => key.tenantId === tenantId);
      (await checkpointsOf(tenantId, own)).forEach((answer, i) => answers.set(own[i] as CheckpointKey, answer));
    }
    return keys.map((key) => answers.get(key) ?? {});
  });

  return {
    run: batched<RunKey, RunOfThread | undefined>(RUNS_AT_ONCE, (keys) => getRuns(db, keys)),
    heardEnd(runId) {
      if (ended !== undefined) return ended.has(runId);
      const heard = new LRUCache<string, true>(HEARD);
      notifier.listen("ended", (id) => void (id !== undefined && heard.set(id, true)));
      ended = heard;
      return true;
    },
    async checkpoint(key) {
      const { tuple, error } = await checkpoint(key);
      if (error !== undefined) throw error;
      return tuple;
    },
  };
}

type Answer = Readonly<{ tuple?: CheckpointTuple | undefined; error?: Error }>;
