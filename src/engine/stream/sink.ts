// Where an attempt's events go: numbered, batched, stored under its lease, in order. The first at once, then every 25 ms
// or 64 KB; less often when whoever asked waits for the end only. What is left when the attempt ends is settled with it.
// Events it was given are not lost by a database that goes away and comes back.
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import { batched } from "../../core/batch.js";
import {
  type Append,
  type Appended,
  appendStreamChunks,
  IDS_PER_ATTEMPT,
  type StreamLine,
} from "../../runs/stream-chunks.js";
import { createDeltaEncoder } from "../../runs/stream-delta.js";
import type { StreamEvent } from "./gates.js";
import type { LiveAttempt } from "./live.js";

const LINGER_MS = 25;
/** Whoever joins such a stream sees its events this much later. */
const UNWATCHED_LINGER_MS = 1_000;
const BATCH_BYTES = 65_536;
/** Without a reason an error would be made for nobody. */
const HURRY = "hurry";
/** More than this not stored yet: who pushes waits. */
const BACKLOG_BYTES = 4 * 1024 * 1024;
/** Appends don't wait for the disk; Postgres writes at the latest after three times 200 ms. */
const UNSAFE_MS = 2_000;

export type StreamSink = Readonly<{
  /** Takes the next event; resolves when there is room for more. Rejects once the lease is lost or the signal aborted. */
  push(event: StreamEvent): Promise<void>;
  /** Resolves when everything pushed is stored; rejects like `push`. */
  drain(): Promise<void>;
  /**
   * The last events of the attempt, numbered, with those that aren't stored yet: for the settling to store. Rejects like
   * `push`. Nothing may be pushed after it.
   */
  finish(events: readonly StreamEvent[]): Promise<StreamLine[]>;
  /** Numbers events that are stored by others. */
  number(events: readonly StreamEvent[]): StreamLine[];
}>;

/** Appends for one attempt, in one statement with others that append at the same time. */
export type AppendStream = (append: Append) => Promise<Appended>;

/** So many share a statement at most. */
const AT_ONCE = 50;

export function createStreamAppender(deps: Pick<Deps, "db">): AppendStream {
  // One that the server refuses must not take the others with it.
  return batched<Append, Appended>(
    AT_ONCE,
    (appends) => appendStreamChunks(deps.db, appends),
    (error) => !isTransientDbError(error),
  );
}

export type SinkOptions = Readonly<{
  append: AppendStream;
  /** Somebody may be looking: events are stored soon. */
  watched: boolean;
  /** Who follows the run in this process. */
  live?: LiveAttempt;
  /** Hears at once why nothing can be stored any more; who pushes hears of it only then. */
  onFailure?: (error: unknown) => void;
}>;

/** Starts an attempt's stream with its `metadata` event. Aborting `signal` ends it, also while it waits for the database. */
export function createStreamSink(
  deps: Pick<Deps, "notifier" | "clock" | "random">,
  lease: Lease,
  signal: AbortSignal,
  options: SinkOptions,
): StreamSink {
  const sink = new Sink(deps, lease, signal, options);
  const metadata = { run_id: lease.runId, attempt: lease.attempt };
  sink.push({ event: "metadata", json: JSON.stringify(metadata) }).catch(() => {
    // Whoever pushes next hears of it.
  });
  return sink;
}

type Batch = StreamLine[];

class Sink implements StreamSink {
  private nextId: number;
  private readonly shorten = createDeltaEncoder();
  private queue: StreamLine[] = [];
  private queuedBytes = 0;
  private failure: Readonly<{ error: unknown }> | undefined;
  private writing = false;
  private draining = false;
  /** The settling takes what is left. */
  private leaving = false;
  private onRoom: (() => void)[] = [];
  private hurry = (): void => {};
  /** Batches that a crash of Postgres may still take away, oldest first. */
  private recent: Readonly<{ batch: Batch; atMs: number }>[] = [];

  constructor(
    private readonly deps: Pick<Deps, "notifier" | "clock" | "random">,
    private readonly lease: Lease,
    private readonly signal: AbortSignal,
    private readonly options: SinkOptions,
  ) {
    this.nextId = (lease.attempt - 1) * IDS_PER_ATTEMPT;
    signal.addEventListener("abort", () => this.hurry(), { once: true });
  }

  async push(event: StreamEvent): Promise<void> {
    this.check();
    const lines = this.number([event]);
    this.queue.push(...lines);
    for (const line of lines) this.queuedBytes += sizeOf(line);
    this.start();
    if (this.queuedBytes >= BATCH_BYTES) this.hurry();
    if (this.queuedBytes < BACKLOG_BYTES) return;
    await this.progress(() => this.queuedBytes < BACKLOG_BYTES);
  }

  async drain(): Promise<void> {
    this.draining = true;
    this.hurry();
    await this.progress(() => !this.writing && this.queue.length === 0);
    this.check();
  }

  async finish(events: readonly StreamEvent[]): Promise<StreamLine[]> {
    if (this.queuedBytes < BATCH_BYTES && !this.hasRecent()) {
      this.leaving = true;
      this.hurry();
      await this.progress(() => !this.writing);
      this.check();
    } else await this.drain();
    return [...this.queue.splice(0), ...this.number(events)];
  }

  number(events: readonly StreamEvent[]): StreamLine[] {
    return events.map(({ event, json }) => this.shorten({ id: this.nextId++, event, json }));
  }

  private check(): void {
    if (this.failure !== undefined) throw this.failure.error;
    this.signal.throwIfAborted();
  }

  /** Waits until `reached`, or throws what ended the sink. */
  private async progress(reached: () => boolean): Promise<void> {
    while (!reached()) {
      this.check();
      await new Promise<void>((resolve) => this.onRoom.push(resolve));
    }
  }

  private start(): void {
    if (this.writing) return;
    this.writing = true;
    void this.write();
  }

  private async write(): Promise<void> {
    try {
      // What is pushed in one go is stored in one go.
      await new Promise((resolve) => setImmediate(resolve));
      if (!this.options.watched) await this.linger(UNWATCHED_LINGER_MS);
      while (this.queue.length > 0 && !this.leaving) {
        const startedMs = this.deps.clock.monotonicMs();
        const batch = this.takeBatch();
        await this.store(batch);
        this.options.live?.tell(batch);
        this.deps.notifier.notify("lines", this.lease.runId);
        this.tellProgress();
        const lingerMs = this.options.watched ? LINGER_MS : UNWATCHED_LINGER_MS;
        await this.linger(startedMs + lingerMs - this.deps.clock.monotonicMs());
      }
    } catch (error) {
      this.failure = { error };
      if (!this.signal.aborted) this.options.onFailure?.(error);
    } finally {
      this.writing = false;
      this.tellProgress();
    }
  }

  /** Whether Postgres may still lose something that it stored: then the next append looks. */
  private hasRecent(): boolean {
    const nowMs = this.deps.clock.monotonicMs();
    return this.recent.some((entry) => nowMs - entry.atMs < UNSAFE_MS);
  }

  private takeBatch(): Batch {
    let bytes = 0;
    let count = 0;
    for (const line of this.queue) {
      if (count > 0 && bytes + sizeOf(line) > BATCH_BYTES) break;
      bytes += sizeOf(line);
      count++;
    }
    this.queuedBytes -= bytes;
    return this.queue.splice(0, count);
  }

  /** One batch, tried again while the database is away; before it, what a crash of the database took. */
  private async store(batch: Batch): Promise<void> {
    let again: readonly Batch[] = [];
    for (let failures = 0; ; ) {
      this.signal.throwIfAborted();
      try {
        const previous = this.recent.at(-1)?.batch[0]?.id ?? null;
        const append = { lease: this.lease, batches: [...again, batch], previousFirstId: previous };
        const result = await this.options.append(append);
        if (!result.owned) throw this.leaseLost();
        if (result.previousKept || again.length > 0) break;
        again = this.recent.map((entry) => entry.batch);
      } catch (error) {
        if (!isTransientDbError(error)) throw error;
        await this.deps.clock.sleep(backoffMs(++failures, this.deps.random()), this.signal);
      }
    }
    const nowMs = this.deps.clock.monotonicMs();
    this.recent = [...this.recent.filter((entry) => nowMs - entry.atMs < UNSAFE_MS), { batch, atMs: nowMs }];
  }

  private async linger(ms: number): Promise<void> {
    if (ms <= 0 || this.draining || this.leaving || this.queuedBytes >= BATCH_BYTES) return;
    const early = new AbortController();
    this.hurry = () => early.abort(HURRY);
    await this.deps.clock.sleep(ms, early.signal);
    this.hurry = () => {};
  }

  private tellProgress(): void {
    for (const resolve of this.onRoom.splice(0)) resolve();
  }

  private leaseLost(): EngineError {
    const { runId, attempt } = this.lease;
    return new EngineError("lease_lost", `Attempt ${attempt} of run ${runId} lost its lease; its stream ends here`, {
      details: { run_id: runId, attempt },
    });
  }
}

/** About as many bytes as it takes; exact enough to bound batches and memory. */
function sizeOf(line: StreamLine): number {
  return line.json.length + line.event.length + 32;
}
