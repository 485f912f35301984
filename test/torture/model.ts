// What a saver must do, in the plainest way: everything is a list in memory, nothing is ever moved.
import { compareWritesSortKeys, WRITES_IDX_MAP, writesSortKey } from "@langchain/langgraph-checkpoint";
import type { Spec } from "./specs.js";

export type Stored = {
  ns: string;
  id: string;
  parentId: string | null;
  /** A channel that is empty has none; that of a list of specs is an array. */
  values: Readonly<Record<string, Spec | readonly Spec[]>>;
  versions: Readonly<Record<string, string>>;
  metadata: Readonly<Record<string, unknown>>;
  /** Pruned: only its part of the delta channel is left, for those that are rebuilt from it. */
  hidden?: true;
};
export type Written = Readonly<{ taskId: string; taskPath: string; idx: number; channel: string; value: Spec }>;

export type ListOptions = Readonly<{
  ns?: string;
  before?: string;
  filter?: Readonly<Record<string, unknown>>;
  limit?: number;
}>;

/** The channel that is rebuilt from ancestors. */
export const DELTA = "delta";

/** One thread. */
export class Model {
  /** In the order in which they were first put, hidden ones too. */
  private all: Stored[] = [];
  /** Since then a delta channel's history is only there for whoever is rebuilt from it. */
  pruned = false;
  private writes = new Map<string, Map<string, Written>>();

  put(checkpoint: Stored): void {
    const at = this.all.findIndex(({ ns, id }) => ns === checkpoint.ns && id === checkpoint.id);
    if (at === -1) this.all.push(checkpoint);
    else this.all[at] = checkpoint;
  }

  /** In the order in which they were first put. */
  get checkpoints(): readonly Stored[] {
    return this.all.filter(({ hidden }) => hidden !== true);
  }

  putWrites(ns: string, id: string, taskId: string, taskPath: string, writes: readonly (readonly [string, Spec])[]) {
    const of = this.writes.get(`${ns} ${id}`) ?? new Map<string, Written>();
    this.writes.set(`${ns} ${id}`, of);
    writes.forEach(([channel, value], position) => {
      const idx = WRITES_IDX_MAP[channel] ?? position;
      if (idx < 0 || !of.has(`${taskId} ${idx}`)) of.set(`${taskId} ${idx}`, { taskId, taskPath, idx, channel, value });
    });
  }

  clear(): void {
    this.all = [];
    this.writes.clear();
    this.pruned = false;
  }

  /**
   * Keeps the newest states of each branch of the root graph, of a subgraph the newest of all, and of one with a history for the
   * whole thread what was newest when a root state that stays was made, or when what that one edits or copies was made.
   */
  prune(keepLatest: number, thorough: boolean): void {
    const visible = this.checkpoints;
    const kept = new Set<Stored>();
    const root = visible.filter(({ ns }) => ns === "");
    for (const leaf of root.filter(({ id }) => !root.some(({ parentId }) => parentId === id))) {
      let at: Stored | undefined = leaf;
      for (let n = 0; n < keepLatest && at !== undefined; n++) {
        kept.add(at);
        at = root.find(({ id }) => id === at?.parentId);
      }
    }
    const keptRoot = root.filter((state) => kept.has(state));
    for (const ns of new Set(visible.map((state) => state.ns).filter((name) => name !== ""))) {
      const states = visible.filter((state) => state.ns === ns);
      const keep = (state: Stored | undefined) => state !== undefined && kept.add(state);
      const before = (limit: Stored) => states.findLast((state) => this.all.indexOf(state) < this.all.indexOf(limit));
      keep(states.at(-1));
      if (ns.includes(":")) continue;
      for (const state of keptRoot) {
        keep(before(state));
        const { parentId } = state;
        if (state.metadata["source"] !== "fork" || parentId === null) continue;
        const parent = this.all.find(({ id }) => id === parentId);
        keep(parent ? before(parent) : states.findLast(({ id }) => id < parentId));
      }
    }
    if (!thorough && kept.size === visible.length) return;
    this.keepOnly(kept);
  }

  private keepOnly(kept: ReadonlySet<Stored>): void {
    const needed = new Set<Stored>();
    for (const state of kept) {
      for (let at: Stored | undefined = state; at !== undefined && !Object.hasOwn(at.values, DELTA); ) {
        at = this.parentOf(at);
        if (at !== undefined && !kept.has(at)) needed.add(at);
      }
    }
    this.all = this.all.flatMap((state): Stored[] => {
      if (kept.has(state)) return [state];
      const of = this.writes.get(`${state.ns} ${state.id}`) ?? new Map<string, Written>();
      for (const [key, { channel }] of of) if (!needed.has(state) || channel !== DELTA) of.delete(key);
      const values = Object.fromEntries(Object.entries(state.values).filter(([channel]) => channel === DELTA));
      return needed.has(state) ? [{ ...state, values, hidden: true }] : [];
    });
    this.pruned = true;
  }

  get(ns: string, id?: string): Stored | undefined {
    return this.checkpoints.findLast((one) => one.ns === ns && (id === undefined || one.id === id));
  }

  writesOf({ ns, id }: Stored): Written[] {
    const keyOf = ({ taskPath, taskId, idx }: Written) => writesSortKey(taskPath, taskId, idx);
    const writes = [...(this.writes.get(`${ns} ${id}`)?.values() ?? [])];
    return writes.sort((a, b) => compareWritesSortKeys(keyOf(a), keyOf(b)));
  }

  list({ ns, before, filter = {}, limit = Number.POSITIVE_INFINITY }: ListOptions): Stored[] {
    const { checkpoints } = this;
    const end = before === undefined ? checkpoints.length : checkpoints.findIndex(({ id }) => id === before);
    return checkpoints
      .slice(0, end)
      .reverse()
      .filter((one) => ns === undefined || one.ns === ns)
      .filter((one) => Object.entries(filter).every(([key, value]) => one.metadata[key] === value))
      .slice(0, limit);
  }

  /** From the nearest ancestor with a value on, oldest first. */
  deltaHistory(of: Stored, channel: string): Readonly<{ writes: Written[]; seed?: Spec | readonly Spec[] }> {
    const writes: Written[] = [];
    for (let one = this.parentOf(of); one !== undefined; one = this.parentOf(one)) {
      writes.unshift(...this.writesOf(one).filter((write) => write.channel === channel));
      if (Object.hasOwn(one.values, channel)) return { writes, seed: one.values[channel]! };
    }
    return { writes };
  }

  private parentOf({ ns, parentId }: Stored): Stored | undefined {
    return this.all.find((one) => one.ns === ns && one.id === parentId);
  }
}
