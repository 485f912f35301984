// Plays steps on a real saver and on the model at once, and compares what both say.
import { randomUUID } from "node:crypto";
import { inspect, isDeepStrictEqual } from "node:util";
import type { BaseMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type CheckpointTuple, emptyCheckpoint, type PendingWrite } from "@langchain/langgraph-checkpoint";
import { v6 as uuidv6 } from "uuid";
import type { BodyReader } from "../../src/checkpoint/body-reader.js";
import { createSaver, type Saver } from "../../src/checkpoint/saver.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { pruneThread } from "../../src/engine/commands/prune-thread.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { repackThread } from "../../src/engine/repack-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import type { TestSavers } from "../helpers/savers.js";
import { DELTA, type ListOptions, Model, type Stored } from "./model.js";
import { build, buildMessage, type MessageSpec, sendOf, type Spec } from "./specs.js";
import type { Edit, Step } from "./steps.js";

const NAMESPACES = ["", "sub", "node:7f1b|inner"] as const;
const TASKS = ["00000000-0000-0000-0000-000000000000", "task-b", "task-a"] as const;
const PATHS = ["", "~__pregel_pull, node", "~\u{10000}", "~\uffff"] as const;

/** The next thing a process does stands on what it put last: its objects are those in its memory. */
type Live = Readonly<{ of: Stored; messages: BaseMessage[] }>;

export class Player {
  readonly threadId = randomUUID() as ThreadId;
  private readonly key = { tenantId: DEFAULT_TENANT, threadId: this.threadId };
  private readonly model = new Model();
  private saver: Saver | undefined;
  private live: Live | undefined;
  /** What this saver put last. */
  private own: Stored | undefined;
  private clockMs = Date.now();

  constructor(private readonly savers: TestSavers) {}

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case "put":
        return this.put(step);
      case "again":
        return this.putAgain(step);
      case "copy":
        return this.copy(step);
      case "write":
        return this.write(step);
      case "list":
        return this.list(await this.reading(), {
          ...(step.ns === null ? {} : { ns: NAMESPACES[step.ns]! }),
          ...(step.before === null || this.model.checkpoints.length === 0 ? {} : { before: this.nth(step.before)!.id }),
          ...(step.tag === null ? {} : { filter: { tag: step.tag, source: "loop" } }),
          ...(step.limit === null ? {} : { limit: step.limit }),
        });
      case "get": {
        const wanted = step.base === null ? undefined : this.nth(step.base);
        return this.get(await this.reading(), wanted?.ns ?? NAMESPACES[step.ns]!, wanted?.id);
      }
      case "delta": {
        const of = this.nth(step.base);
        return of === undefined ? undefined : this.delta(await this.reading(), of);
      }
      case "takeover":
        this.saver = this.live = this.own = undefined;
        return;
      case "move":
        return this.move(step);
      case "prune":
        return this.prune(step);
      case "sweep":
        await sweepOrphans(this.savers.deps, { graceMs: 3_600_000 });
        return;
      case "delete":
        return this.delete();
    }
  }

  /** Everything that can be asked, of a process that has nothing in memory, before and after all was moved. */
  async check(): Promise<void> {
    for (const moved of [false, true]) {
      if (moved) {
        await repackThread(this.savers.deps, this.key, { graceMs: 0 });
        await this.move({ settled: true, small: false });
        await sweepOrphans(this.savers.deps, { graceMs: 3_600_000 });
      }
      const reader = this.reader(this.savers.newReader());
      await this.list(reader, {});
      for (const ns of NAMESPACES) await this.get(reader, ns);
      for (const of of [this.nth(0), this.nth(3)]) if (of !== undefined) await this.delta(reader, of);
    }
    const { rows } = await this.savers.deps.db.query<{ left: number }>(
      `select (select count(*) from staged_bodies where thread_id = $1)
        + (select count(*) from channel_versions where thread_id = $1)
        + (select count(*) from checkpoint_writes where thread_id = $1)
        + (select count(*) from packs where thread_id = $1 and status <> 'stored') as left`,
      [this.threadId],
    );
    expectSame("rows left in Postgres after everything was moved", rows[0]?.left, 0);
  }

  private async writing(): Promise<Saver> {
    this.saver ??= this.savers.forLease(await this.savers.lease(this.threadId), {
      large: true,
      bodies: this.savers.newReader(),
    });
    return this.saver;
  }

  private async reading(): Promise<Saver> {
    return this.saver ?? this.reader(this.savers.newReader());
  }

  private reader(bodies: BodyReader): Saver {
    return createSaver({ sql: this.savers.deps.db, tenantId: DEFAULT_TENANT, bodies, commit: null });
  }

  /** Newest first. */
  private nth(n: number): Stored | undefined {
    const { checkpoints } = this.model;
    return checkpoints.at(-1 - (n % Math.max(1, checkpoints.length)));
  }

  private config(ns: string, id?: string | null): RunnableConfig {
    return { configurable: { thread_id: this.threadId, checkpoint_ns: ns, ...(id ? { checkpoint_id: id } : {}) } };
  }

  private async put(step: Extract<Step, { do: "put" }>): Promise<void> {
    const saver = await this.writing();
    const ns = NAMESPACES[step.ns]!;
    const inNs = this.model.list({ ns });
    const parent = inNs.length === 0 ? undefined : inNs[step.base % inNs.length];
    const before = await this.messagesOf(saver, parent);
    const messages = step.edits.reduce(edited, { specs: listOf(parent?.values["messages"]), live: before });
    const values: Record<string, Spec | readonly Spec[]> = { ...parent?.values, messages: messages.specs };
    const versions = { ...parent?.versions };
    const changed = new Set(step.edits.length > 0 || parent === undefined ? ["messages"] : []);
    const change = (channel: string, spec: Spec | null): void => {
      changed.add(channel);
      if (spec === null) delete values[channel];
      else values[channel] = spec;
    };
    if (step.data !== null) change("data", step.empty ? null : step.data);
    if (step.delta === "moves") change("delta", null);
    if (step.delta === "snapshot") change("delta", { is: "snapshot", inner: { is: "list", items: messages.specs } });
    // The packets are of this step only.
    const sends = step.sends ? (["list", "list"] as const) : [];
    delete values["__pregel_tasks"];
    if (sends.length > 0 || Object.hasOwn(parent?.values ?? {}, "__pregel_tasks")) changed.add("__pregel_tasks");
    if (sends.length > 0) {
      values["__pregel_tasks"] = sends.map(
        (is): Spec => ({ is: "send", inner: { is: "object", entries: [["messages", { is, items: messages.specs }]] } }),
      );
    }
    for (const channel of changed) versions[channel] = saver.getNextVersion(versions[channel]);
    const stored: Stored = {
      ns,
      id: uuidv6({ msecs: (this.clockMs += step.behind ? -5_000 : 7_000) }),
      parentId: parent?.id ?? null,
      values,
      versions,
      metadata: {
        ...{ source: "loop", step: this.model.checkpoints.length, parents: {}, tag: step.tag },
        counters_since_delta_snapshot: { [DELTA]: [1, 1] },
      },
    };
    const live: Record<string, unknown> = { messages: messages.live };
    if (sends.length > 0) live["__pregel_tasks"] = sends.map(() => sendOf({ messages: messages.live }));
    await this.send(saver, stored, changed, live);
    this.live = { of: stored, messages: messages.live };
  }

  /**
   * LangGraph puts only its own newest checkpoint again: when a run with exit durability stops. Whoever writes a thread from
   * a source again, after a crash, puts any.
   */
  private async putAgain({ base, tag }: Readonly<{ base: number | null; tag: number }>): Promise<void> {
    const of = base === null ? this.own : this.nth(base);
    if (of === undefined) return;
    if (base !== null) this.saver = undefined;
    const again = { ...of, metadata: { ...of.metadata, tag } };
    await this.send(await this.writing(), again, new Set());
    if (base !== null) this.saver = this.live = this.own = undefined;
  }

  /** As LangGraph does it: under the parent of what is copied, with no new version. */
  private async copy({ base, tag }: Readonly<{ base: number; tag: number }>): Promise<void> {
    const of = this.nth(base);
    if (of === undefined) return;
    const copied = {
      ...of,
      id: uuidv6({ msecs: (this.clockMs += 7_000) }),
      metadata: { ...of.metadata, source: "fork", tag },
    };
    await this.send(await this.writing(), copied, new Set());
    this.live = undefined;
  }

  private async send(saver: Saver, stored: Stored, changed: ReadonlySet<string>, live: Record<string, unknown> = {}) {
    this.model.put(stored);
    this.own = stored;
    const checkpoint = {
      ...emptyCheckpoint(),
      id: stored.id,
      ts: "2026-01-01T00:00:00.000Z",
      channel_values: { ...valuesOf(stored), ...live },
      channel_versions: stored.versions,
    };
    const fresh = Object.fromEntries([...changed].map((channel) => [channel, stored.versions[channel]!]));
    const { ns, parentId } = stored;
    await saver.put(this.config(ns, parentId), checkpoint, structuredClone(stored.metadata) as never, fresh);
  }

  private async write(step: Extract<Step, { do: "write" }>): Promise<void> {
    const saver = await this.writing();
    const base = this.nth(step.base);
    if (base === undefined) return;
    const taskId = TASKS[step.task]!;
    const taskPath = PATHS[step.path]!;
    const writes = step.writes.map(([channel, spec]): PendingWrite => [channel, build(spec)]);
    const target = step.early ? { ...base, id: uuidv6({ msecs: (this.clockMs += 7_000) }), parentId: base.id } : base;
    this.model.putWrites(target.ns, target.id, taskId, taskPath, step.writes);
    const written = saver.putWrites(this.config(target.ns, target.id), writes, taskId, taskPath);
    if (step.early) await this.send(saver, target, new Set());
    if (step.early) this.live = undefined;
    await written;
  }

  private async messagesOf(saver: Saver, parent: Stored | undefined): Promise<BaseMessage[]> {
    if (parent === undefined) return [];
    if (this.live?.of === parent) return this.live.messages;
    const tuple = await saver.getTuple(this.config(parent.ns, parent.id));
    return tuple?.checkpoint.channel_values["messages"] as BaseMessage[];
  }

  private async move({ settled, small }: Readonly<{ settled: boolean; small: boolean }>): Promise<void> {
    if (settled) {
      await this.savers.settle(this.threadId);
      this.saver = this.live = this.own = undefined;
    }
    await moveThread(this.savers.deps, this.key, small ? { packBytes: 300 } : {});
  }

  private async prune({ keepLatest, thorough, repack }: Extract<Step, { do: "prune" }>): Promise<void> {
    await this.savers.settle(this.threadId);
    this.saver = this.live = this.own = undefined;
    if (this.model.checkpoints.length === 0) return;
    const policy = { keepLatest, olderThanMs: null, outcomes: null };
    const held = { owner: "prune", leaseMs: 60_000 };
    await pruneThread(this.savers.deps, { ...this.key, ...held, policy, thorough, dryRun: false });
    this.model.prune(keepLatest, thorough);
    if (repack) await repackThread(this.savers.deps, this.key, { graceMs: 0 });
  }

  private async delete(): Promise<void> {
    const saver = await this.writing();
    await saver.deleteThread(this.threadId);
    // As if the time were over in which an upload may still come.
    await this.savers.deps.db.query("update packs set delete_after = now() where status = 'doomed'");
    await sweepOrphans(this.savers.deps, { graceMs: 3_600_000 });
    this.model.clear();
    this.live = this.own = undefined;
  }

  private async get(saver: Saver, ns: string, id?: string): Promise<void> {
    const tuple = await saver.getTuple(this.config(ns, id));
    const stored = this.model.get(ns, id);
    expectSame(`checkpoint ${id ?? "newest"} of "${ns}"`, tuple, stored && this.tupleOf(stored));
  }

  private async list(saver: Saver, options: ListOptions): Promise<void> {
    const { ns, before, filter, limit } = options;
    const config: RunnableConfig = {
      configurable: { thread_id: this.threadId, ...(ns === undefined ? {} : { checkpoint_ns: ns }) },
    };
    const tuples: CheckpointTuple[] = [];
    const asked = {
      ...(before === undefined ? {} : { before: this.config("", before) }),
      ...(filter === undefined ? {} : { filter }),
      ...(limit === undefined ? {} : { limit }),
    };
    for await (const tuple of saver.list(config, asked)) tuples.push(tuple);
    const expected = this.model.list(options).map((stored) => this.tupleOf(stored));
    expectSame(`list ${JSON.stringify(options)}`, tuples, expected);
  }

  private async delta(saver: Saver, of: Stored): Promise<void> {
    // Whoever has a value of it never asks, and for them nothing was kept.
    if (this.model.pruned && Object.hasOwn(of.values, DELTA)) return;
    const channels = this.model.pruned ? [DELTA] : [DELTA, "messages"];
    const history = await saver.getDeltaChannelHistory({ config: this.config(of.ns, of.id), channels });
    const expected = Object.fromEntries(
      channels.map((channel) => {
        const { writes, seed } = this.model.deltaHistory(of, channel);
        const built = writes.map(({ taskId, value }) => [taskId, channel, build(value)]);
        return [channel, seed === undefined ? { writes: built } : { writes: built, seed: buildAny(seed) }];
      }),
    );
    expectSame(`delta history of ${of.id}`, history, expected);
  }

  private tupleOf(stored: Stored): CheckpointTuple {
    const { ns, id, parentId, versions, metadata } = stored;
    return {
      config: this.config(ns, id),
      checkpoint: {
        ...emptyCheckpoint(),
        id,
        ts: "2026-01-01T00:00:00.000Z",
        channel_values: valuesOf(stored),
        channel_versions: { ...versions },
      },
      metadata: metadata as never,
      ...(parentId === null ? {} : { parentConfig: this.config(ns, parentId) }),
      pendingWrites: this.model.writesOf(stored).map(({ taskId, channel, value }) => [taskId, channel, build(value)]),
    };
  }
}

function valuesOf({ values }: Stored): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([channel, spec]) => [channel, buildAny(spec)]));
}

function buildAny(spec: Spec | readonly Spec[]): unknown {
  return isList(spec) ? spec.map(build) : build(spec);
}

function listOf(spec: Spec | readonly Spec[] | undefined): readonly MessageSpec[] {
  return spec !== undefined && isList(spec) ? (spec as readonly MessageSpec[]) : [];
}

function isList(spec: Spec | readonly Spec[]): spec is readonly Spec[] {
  return Array.isArray(spec);
}

type Messages = Readonly<{ specs: readonly MessageSpec[]; live: BaseMessage[] }>;

/** The same change to what is described and to the objects, which otherwise stay the ones they are. */
function edited({ specs, live }: Messages, edit: Edit): Messages {
  if (edit.edit === "append") {
    return { specs: [...specs, ...edit.messages], live: [...live, ...edit.messages.map(buildMessage)] };
  }
  if (specs.length === 0) return { specs, live };
  const at = edit.at % specs.length;
  switch (edit.edit) {
    case "remove":
      return { specs: specs.toSpliced(at, 1), live: live.toSpliced(at, 1) };
    case "swap":
      return { specs: swapped(specs, at), live: swapped(live, at) };
    case "first":
      return { specs: [specs[at]!, ...specs.toSpliced(at, 1)], live: [live[at]!, ...live.toSpliced(at, 1)] };
    case "replace":
      return { specs: specs.with(at, edit.message), live: live.with(at, buildMessage(edit.message)) };
    case "touch": {
      // In place: a field of any message, as reducers give ids.
      const spec = specs[at]!;
      const touched = { ...spec, content: edit.message.content };
      const message = live[at]!;
      message.content = build(touched.content) as string;
      message.lc_kwargs["content"] = message.content;
      // The same object may stand at several places.
      return { specs: specs.map((one, i) => (live[i] === message ? { ...one, content: touched.content } : one)), live };
    }
  }
}

function swapped<T>(items: readonly T[], at: number): T[] {
  const other = (at + 1) % items.length;
  return items.with(at, items[other]!).with(other, items[at]!);
}

function expectSame(what: string, got: unknown, expected: unknown): void {
  if (isDeepStrictEqual(got, expected)) return;
  throw new Error(`${what} differs at ${differenceIn(got, expected)}`);
}

/** The path to the first difference, and what is there. */
function differenceIn(got: unknown, expected: unknown, path = "it"): string {
  if (typeof got === "object" && typeof expected === "object" && got !== null && expected !== null) {
    for (const key of new Set([...Reflect.ownKeys(got), ...Reflect.ownKeys(expected)])) {
      const [one, other] = [got, expected].map((of) => (of as Record<PropertyKey, unknown>)[key]);
      if (!isDeepStrictEqual(one, other)) return differenceIn(one, other, `${path}.${String(key)}`);
    }
  }
  const [one, other] = [got, expected].map((of) => inspect(of, { depth: 6, maxArrayLength: 3, maxStringLength: 20 }));
  return `${path}: ${one?.slice(0, 1_000)}, not ${other?.slice(0, 1_000)}`;
}
