// Hands a saver's operations to the commit, in order and at once where nothing must be uploaded first; knows when all of
// them are durable. After a failure it takes no more: a later checkpoint must not stand on one that is missing.
import { isEngineError } from "../core/errors.js";
import type { Draft } from "./large-bodies.js";
import { type BodyNode, bytesOf, type CheckpointOp, type Commit, type ObjectRow } from "./ops.js";

/** Uploads one body; null when it is stored already. */
export type Upload = (body: BodyNode) => Promise<ObjectRow | null>;

export type Outbox = Readonly<{
  /** Makes the draft at once; resolves when it is durable, after `stored` was called with it. */
  send(make: () => Draft, stored: (draft: Draft) => void): Promise<void>;
  /** Resolves when everything sent so far is durable; rejects if anything failed. */
  flushed(): Promise<void>;
  /** Bytes of what was sent and isn't durable yet. */
  waitingBytes(): number;
  /** What was uploaded is not there any more. */
  forgetUploads(): void;
}>;

export function createOutbox(commit: Commit, upload: Upload | null): Outbox {
  const uploaded = new Map<string, Promise<ObjectRow | null>>();
  const onTheirWay = new Set<Promise<unknown>>();
  let waitingBytes = 0;
  let failure: { error: unknown } | undefined;
  /** Set while an upload holds up what comes after it. */
  let held: Promise<void> | undefined;

  const uploadOnce = (body: BodyNode, by: Upload): Promise<ObjectRow | null> => {
    const known = uploaded.get(body.key) ?? by(body);
    uploaded.set(body.key, known);
    return known;
  };

  /** Without the store the body goes to Postgres like any other: an outage stops nobody. */
  const withLarge = async ({ op, large }: Draft): Promise<CheckpointOp> => {
    const nodes = [...op.nodes];
    const objects: ObjectRow[] = [];
    for (const body of large) {
      if (upload === null) {
        nodes.push(body);
        continue;
      }
      try {
        const object = await uploadOnce(body, upload);
        if (object !== null) objects.push(object);
      } catch (error) {
        if (!isEngineError(error, "unavailable")) throw error;
        uploaded.delete(body.key);
        nodes.push(body);
      }
    }
    return { ...op, nodes, objects };
  };

  const handOver = (draft: Draft): Promise<void> => {
    if (held === undefined && draft.large.length === 0) return commit(draft.op);
    const op = (held ?? Promise.resolve()).then(() => withLarge(draft));
    // Committed in turn, but not waited for: the next operation may share its statement.
    let committed: Promise<void> = Promise.resolve();
    const handed = op.then((ready) => {
      committed = commit(ready);
      committed.catch(() => undefined);
    });
    const turn: Promise<void> = handed
      .catch(() => undefined)
      .then(() => {
        if (held === turn) held = undefined;
      });
    held = turn;
    return handed.then(() => committed);
  };

  return {
    // Every promise less counts: this is done twice for each node of each run.
    send(make, stored) {
      if (failure !== undefined) return Promise.reject(failure.error);
      let draft: Draft;
      try {
        draft = make();
      } catch (error) {
        failure = { error };
        return Promise.reject(error);
      }
      const bytes = draft.large.reduce((sum, { data }) => sum + data.length, bytesOf(draft.op));
      waitingBytes += bytes;
      const arrived = (): void => {
        waitingBytes -= bytes;
        onTheirWay.delete(sent);
      };
      const sent: Promise<void> = handOver(draft).then(
        () => {
          arrived();
          stored(draft);
        },
        (error: unknown) => {
          arrived();
          failure ??= { error };
          throw error;
        },
      );
      onTheirWay.add(sent);
      return sent;
    },
    async flushed() {
      if (onTheirWay.size > 0) await Promise.allSettled(onTheirWay);
      if (failure !== undefined) throw failure.error;
    },
    waitingBytes: () => waitingBytes,
    forgetUploads: () => uploaded.clear(),
  };
}
