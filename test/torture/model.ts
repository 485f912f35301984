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
};
export type Written = Readonly<{ taskId: string; taskPath: string; idx: number; channel: string; value: Spec }>;

export type ListOptions = Readonly<{
  ns?: string;
  before?: string;
  filter?: Readonly<Record<string, unknown>>;
  limit?: number;
}>;

/** One thread. */
export class Model {
  /** In the order in which they were first put. */
  checkpoints: Stored[] = [];
  private writes = new Map<string, Map<string, Written>>();

  put(checkpoint: Stored): void {
    const at = this.checkpoints.findIndex(({ ns, id }) => ns === checkpoint.ns && id === checkpoint.id);
    if (at === -1) this.checkpoints.push(checkpoint);
    else this.checkpoints[at] = checkpoint;
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
    this.checkpoints = [];
    this.writes.clear();
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
    const end = before === undefined ? this.checkpoints.length : this.checkpoints.findIndex(({ id }) => id === before);
    return this.checkpoints
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
    return parentId === null ? undefined : this.get(ns, parentId);
  }
}
