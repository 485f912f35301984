// LangGraph's saver on our rows and bodies. One instance per lease: what it writes goes through the lease's commit, so
// that a worker that lost its run writes nothing. Without a commit it only reads.
import { randomInt } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  getCheckpointId,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { isUuid, type RunId, type TenantId, type ThreadId } from "../core/ids.js";
import { addressOf, badConfig, placeOf, readAddressOf } from "./address.js";
import type { BodyReader } from "./body-reader.js";
import { createSession, type EncodeSession, slotOfNode } from "./codec/encoder.js";
import type { Shape } from "./codec/format.js";
import { entryOfRead } from "./codec/item-cache.js";
import { isMessage } from "./codec/langchain-forms.js";
import { storedNode } from "./codec/node.js";
import { type Address, draftCheckpoint, draftWrites, indexWrites, type WriteInput } from "./drafts.js";
import { type LargeBodiesOptions, splitLarge, uploadLargeBody } from "./large-bodies.js";
import { jsonbText } from "./metadata.js";
import { type CheckpointOp, type Commit, joinOps } from "./ops.js";
import { createOutbox, type Outbox } from "./outbox.js";
import { doomThread } from "./queries.js";
import { type Learn, listTuples, readDeltaHistory, readTuple } from "./read-tuples.js";

export type SaverOptions = Readonly<{
  /** For reads. */
  sql: Sql;
  tenantId: TenantId;
  bodies: BodyReader;
  /** Null: read only. */
  commit: Commit | null;
  runId?: RunId | null;
  attempt?: number;
  /** Where bodies go that are too large for Postgres, and the only thread to write to. */
  largeBodies?: LargeBodiesOptions | null;
  /** The thread had no checkpoint when this saver's lease began. */
  fresh?: boolean;
  /** Lists show checkpoints whose content is gone or damaged as empty ones with a mark, instead of failing. */
  markBroken?: boolean;
  /** A run goes on from what is read: its breakpoints have seen all of it. */
  resumes?: boolean;
  /**
   * The checkpoint of an input isn't waited for: the input itself is stored with the run, and what comes after it is committed
   * after it or with it.
   */
  inputBehind?: boolean;
  /**
   * Writes for a checkpoint that was there before are stored with the next one that is put, or never: an edit hands them over before its
   * values are applied, and what can't be applied is to leave nothing.
   */
  writesWithPut?: boolean;
  /** Called with each result of a task that a node called: nothing waits for its being stored but `flushed`. */
  onTaskResult?: () => void;
  /** Values of the root graph that are no part of its checkpoints and belong to its result: stored with each. */
  givenOut?: () => readonly (readonly [string, unknown])[];
  /** How values become nodes: the format's own, but in tests. */
  shape?: Shape;
}>;

/**
 * A saver for one claimed run, or a reader.
 *
 *     const saver = createSaver({ sql: db, tenantId, bodies, commit: combiner.forLease(lease, signal), runId });
 */
export function createSaver(options: SaverOptions): Saver {
  return new Saver(options);
}

/** Stands for a task in the writes that hold what a graph gave out. LangGraph passes over writes of tasks that it doesn't know. */
const GIVEN_OUT = "perdure:given_out";

/** What a checkpoint's graph gave out beside the state it keeps. */
export function givenOutOf(tuple: CheckpointTuple): Readonly<Record<string, unknown>> {
  const writes = (tuple.pendingWrites ?? []).filter(([task]) => task === GIVEN_OUT);
  return Object.fromEntries(writes.map(([, channel, value]) => [channel, value]));
}

/** LangGraph's channel for what a called task returned. */
const TASK_RESULT = "__return__";

/** LangGraph doesn't wait for the writes of tasks before it starts the next ones. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

export class Saver extends BaseCheckpointSaver<string> {
  private readonly outbox: Outbox | null;
  private readonly sessions = new Map<string, EncodeSession>();
  private peeked: Readonly<{ place: string; tuple: CheckpointTuple | undefined }> | undefined;
  /** By thread and namespace: the checkpoint put last, and whether writes came to it since. */
  private readonly lastPut = new Map<string, { tuple: CheckpointTuple; hasWrites: boolean }>();
  /** Writes that wait for a checkpoint. */
  private readonly held: ((session: EncodeSession) => CheckpointOp)[] = [];

  constructor(private readonly options: SaverOptions) {
    super();
    const { commit, largeBodies, tenantId } = options;
    const upload = largeBodies ? uploadLargeBody.bind(null, largeBodies, tenantId) : null;
    this.outbox = commit === null ? null : createOutbox(commit, upload);
  }

  /** Resolves when every write handed over so far is durable; rejects if one failed, and from then on always. */
  flushed(): Promise<void> {
    return this.outbox?.flushed() ?? Promise.resolve();
  }

  /** Whether so much waits to be durable that the run should not make more. */
  isBehind(): boolean {
    return this.outbox !== null && this.outbox.waitingBytes() > MAX_WAITING_BYTES;
  }

  /** Padded, so that they compare as text; with a random part, so that two branches never make the same version. */
  override getNextVersion(current: string | number | undefined): string {
    const count = current === undefined ? 0 : Number.parseInt(String(current), 10);
    return `${String(count + 1).padStart(10, "0")}.${String(randomInt(2 ** 47)).padStart(15, "0")}`;
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const address = addressOf(config, checkpoint.id);
    const { threadId, ns, checkpointId: parentId } = address;
    const sent = this.send(threadId, (session) => {
      const place = `${threadId}\0${ns}`;
      // Rows of a checkpoint that this instance didn't put, or of the one it puts again, may have been moved to a pack
      // meanwhile; and a copy of a checkpoint stands under the copied one's parent, or under none.
      const isCopy = metadata.source === "fork";
      const last = this.lastPut.get(place);
      const lastId = last?.tuple.checkpoint.id;
      const isAgain = checkpoint.id === lastId;
      const allValues = isCopy || isAgain || (parentId !== null && parentId !== lastId);
      const hasWrites = isAgain && last?.hasWrites === true;
      this.lastPut.set(place, { tuple: tupleOfPut(address, checkpoint, metadata), hasWrites });
      const runId = this.options.runId ?? null;
      const put = draftCheckpoint(session, { address, checkpoint, metadata, newVersions, allValues, config, runId });
      return this.held.length === 0 ? put : joinOps(put, ...this.held.splice(0).map((draft) => draft(session)));
    });
    const given = ns === "" && metadata.source === "loop" ? (this.options.givenOut?.() ?? []) : [];
    const writes = indexWrites(
      given.map(([channel, value]): PendingWrite => [channel, value]),
      GIVEN_OUT,
      "",
    );
    // With the checkpoint, in one statement.
    if (writes.length > 0) {
      const to = { threadId, ns, checkpointId: checkpoint.id };
      await Promise.all([sent, this.send(threadId, (session) => draftWrites(session, to, writes))]);
    }
    // Whether it failed is told by `flushed`, and by every later operation.
    if (this.options.inputBehind === true && metadata.source === "input") sent.catch(() => undefined);
    else await sent;
    return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpoint.id } };
  }

  override putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    return this.putIndexedWrites(config, indexWrites(writes, taskId, taskPath));
  }

  /** Writes that have their index already: of any tasks, as another saver stored them. */
  async putIndexedWrites(config: RunnableConfig, writes: readonly WriteInput[]): Promise<void> {
    const { checkpointId, ...address } = addressOf(config);
    if (checkpointId === null) throw badConfig("checkpoint_id", checkpointId);
    if (writes.some(({ channel }) => channel === TASK_RESULT)) this.options.onTaskResult?.();
    const last = this.lastPut.get(`${address.threadId}\0${address.ns}`);
    const isLast = last?.tuple.checkpoint.id === checkpointId;
    const draft = (session: EncodeSession): CheckpointOp => draftWrites(session, { ...address, checkpointId }, writes);
    if (this.options.writesWithPut === true && !isLast) return void this.held.push(draft);
    if (isLast) last.hasWrites = true;
    await this.send(address.threadId, draft);
  }

  /** Reads a checkpoint that the graph is going to begin with: asked for it next, it gets this one, without a read. */
  async peek(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const tuple = await this.getTuple(config);
    const address = readAddressOf(config);
    this.peeked = address === undefined ? undefined : { place: placeOf(address), tuple };
    return tuple;
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const address = readAddressOf(config);
    if (address === undefined) return undefined;
    const { threadId, ns, checkpointId } = address;
    const { peeked } = this;
    this.peeked = undefined;
    if (peeked?.place === placeOf(address)) return peeked.tuple;
    // Nobody else writes while the lease holds.
    if (this.options.fresh === true && checkpointId === null && !this.lastPut.has(`${threadId}\0${ns}`))
      return undefined;
    return readTuple(this.options, threadId, ns, checkpointId, this.learnFor(threadId));
  }

  override async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const beforeId = options.before === undefined ? "" : getCheckpointId(options.before);
    const ids = [thread_id, checkpoint_id, beforeId].filter(Boolean);
    if (!ids.every((id) => typeof id === "string" && isUuid(id))) return;
    const query = {
      threadId: thread_id || null,
      ns: checkpoint_ns ?? null,
      checkpointId: checkpoint_id || null,
      beforeId: beforeId || null,
      filter: options.filter === undefined ? null : jsonbText(options.filter),
    };
    yield* listTuples(this.options, query, options.limit ?? Number.POSITIVE_INFINITY);
  }

  override async getDeltaChannelHistory(
    options: Readonly<{ config: RunnableConfig; channels: string[] }>,
  ): Promise<Record<string, DeltaChannelHistory>> {
    const { channels } = options;
    const address = readAddressOf(options.config);
    if (address === undefined) return Object.fromEntries(channels.map((channel) => [channel, { writes: [] }]));
    const { threadId, ns, checkpointId } = address;
    return readDeltaHistory(this.options, threadId, ns, checkpointId, channels);
  }

  override async deleteThread(threadId: string): Promise<void> {
    if (this.outbox === null) throw readOnly();
    if (!isUuid(threadId)) return;
    await this.outbox.flushed();
    // Its objects are left to the orphan sweep.
    await doomThread(this.options.sql, { tenantId: this.options.tenantId, threadId: threadId as ThreadId });
    this.outbox.forgetUploads();
    this.sessions.delete(threadId);
    for (const place of this.lastPut.keys()) if (place.startsWith(`${threadId}\0`)) this.lastPut.delete(place);
  }

  /** A reader for the end of the run: it knows the root's newest checkpoint when that was put here and is complete. */
  atEnd(threadId: string): Saver {
    const last = this.lastPut.get(`${threadId}\0`);
    return last === undefined || last.hasWrites
      ? this
      : new KnowingSaver(this.options, new Map([[threadId, last.tuple]]));
  }

  private send(threadId: string, make: (session: EncodeSession) => CheckpointOp): Promise<void> {
    this.peeked = undefined;
    if (this.outbox === null) throw readOnly();
    const { largeBodies, runId, attempt } = this.options;
    const own = largeBodies?.threadId ?? threadId;
    if (own !== threadId) {
      const who = `Attempt ${attempt} of run ${runId}`;
      throw new EngineError("bad_request", `${who} holds thread ${own} and can't write to ${threadId}.`);
    }
    const session = this.sessionOf(threadId);
    return this.outbox.send(
      () => splitLarge(make(session), largeBodies?.fromBytes),
      ({ op, large }) => {
        for (const { key } of op.nodes) session.known.add(key);
        for (const { key } of large) session.known.add(key);
      },
    );
  }

  private sessionOf(threadId: string): EncodeSession {
    const session = this.sessions.get(threadId) ?? createSession(this.options.shape);
    this.sessions.set(threadId, session);
    return session;
  }

  /** What was read needs not be written again, and its messages not be encoded again. */
  private learnFor(threadId: string): Learn | undefined {
    if (this.outbox === null) return undefined;
    const { known, items, shape } = this.sessionOf(threadId);
    return {
      bodies(keys) {
        for (const key of keys) known.add(key);
      },
      message(message, key) {
        if (isMessage(message)) items.set(message, entryOfRead(message, slotOfNode(shape, storedNode(key))));
      },
    };
  }
}

/** Answers the newest root checkpoints of some threads, by name or not, from what is known already. */
export class KnowingSaver extends Saver {
  constructor(
    options: SaverOptions,
    private readonly heads: ReadonlyMap<string, CheckpointTuple>,
  ) {
    super({ ...options, commit: null, fresh: false });
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const head = checkpoint_ns === "" ? this.heads.get(thread_id) : undefined;
    const isHead = checkpoint_ns === "" && (!checkpoint_id || checkpoint_id === head?.checkpoint.id);
    return isHead ? head : super.getTuple(config);
  }
}

/** What a put would read back as. */
function tupleOfPut(address: Address, checkpoint: Checkpoint, metadata: CheckpointMetadata): CheckpointTuple {
  const { threadId: thread_id, ns: checkpoint_ns, checkpointId: parentId } = address;
  const configOf = (checkpoint_id: string) => ({ configurable: { thread_id, checkpoint_ns, checkpoint_id } });
  return {
    config: configOf(checkpoint.id),
    checkpoint,
    metadata,
    ...(parentId === null ? {} : { parentConfig: configOf(parentId) }),
    pendingWrites: [],
  };
}

function readOnly(): EngineError {
  return new EngineError("internal", "This saver only reads; writing needs the lease of a run.");
}
