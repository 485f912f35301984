// Which states of a thread stay when it is pruned. Pure: from the tree of its checkpoints to the ids that are kept.

/** A checkpoint as a node of its thread's tree. */
export type StateNode = Readonly<{
  ns: string;
  checkpointId: string;
  parentId: string | null;
  seq: number;
  /** Of a run that is over; null when nobody knows. */
  runId: string | null;
  source: string | null;
  createdAt: Date;
  /** Where the graphs around it stood: checkpoint ids by namespace. */
  parents: Readonly<Record<string, string>>;
  /** Channels that are rebuilt from ancestors, by LangGraph's own count. */
  deltas: readonly string[];
  /** Whether LangGraph vouches that a delta channel without a version was never written. */
  deltasVersioned: boolean;
  /** Not null: pruned before, and kept for these channels of descendants only. */
  prunedTo: readonly string[] | null;
}>;

export type PlanOptions = Readonly<{
  /** So many of the newest states of each branch stay. */
  keepLatest: number;
  /** Whether the policy lets a state go at all. */
  mayGo(node: StateNode): boolean;
  /** Checkpoint ids that stay, whatever else is said. */
  pinned: ReadonlySet<string>;
}>;

/**
 * The ids of the states that stay whole.
 *
 * Of the root: the newest of each branch, what is pinned and what may not go. Of a subgraph: what belongs to root states that
 * stay, by the same rule, and of one that keeps one history for the whole thread the states from which they would go on.
 */
export function statesToKeep(nodes: readonly StateNode[], options: PlanOptions): ReadonlySet<string> {
  const kept = new Set<string>();
  const byNs = new Map<string, StateNode[]>();
  for (const node of nodes) {
    if (node.prunedTo !== null) continue;
    const states = byNs.get(node.ns);
    if (states) states.push(node);
    else byNs.set(node.ns, [node]);
  }
  const namespaces = [...byNs.keys()].sort((a, b) => depth(a) - depth(b));
  const root = (byNs.get("") ?? []).toSorted(bySeq);
  keepOf(root, options, kept);
  for (const { checkpointId } of root) if (options.pinned.has(checkpointId)) kept.add(checkpointId);
  const keptRoot = root.filter(({ checkpointId }) => kept.has(checkpointId));
  const all = new Map(nodes.map((node) => [node.checkpointId, node]));
  for (const ns of namespaces) {
    if (ns === "") continue;
    const states = (byNs.get(ns) ?? []).toSorted(bySeq);
    if (isLasting(ns)) keepStartingPoints(states, keptRoot, all, kept);
    // A state that was edited without saying where its root stood: the newest is what counts.
    if (states.at(-1)?.parents[""] === undefined) keepNewest(states, kept);
    const belonging = states.filter(({ parents }) => {
      const around = Object.entries(parents).filter(([name]) => name !== ns);
      return around.length > 0 && around.every(([, checkpointId]) => kept.has(checkpointId));
    });
    keepOf(belonging, options, kept);
  }
  return kept;
}

/** The newest of each branch, and what may not go. */
function keepOf(states: readonly StateNode[], { keepLatest, mayGo }: PlanOptions, kept: Set<string>): void {
  const byId = new Map(states.map((state) => [state.checkpointId, state]));
  const haveChildren = new Set(states.map(({ parentId }) => parentId));
  for (const state of states) {
    if (!mayGo(state)) kept.add(state.checkpointId);
    if (haveChildren.has(state.checkpointId)) continue;
    let at: StateNode | undefined = state;
    for (let n = 0; n < keepLatest && at !== undefined; n++) {
      kept.add(at.checkpointId);
      at = at.parentId === null ? undefined : byId.get(at.parentId);
    }
  }
}

/**
 * LangGraph goes on with the newest state, or, from an older state of the root, with the newest before that one (before its
 * parent, when it is an edit or a fork).
 */
function keepStartingPoints(
  states: readonly StateNode[],
  keptRoot: readonly StateNode[],
  all: ReadonlyMap<string, StateNode>,
  kept: Set<string>,
): void {
  keepNewest(states, kept);
  for (const root of keptRoot) {
    keepNewest(before(states, root.seq), kept);
    if (root.parentId === null || (root.source !== "update" && root.source !== "fork")) continue;
    const parent = all.get(root.parentId);
    // A parent that is gone is looked up by its id, which has its time in it.
    const { parentId } = root;
    keepNewest(parent ? before(states, parent.seq) : states.filter((s) => s.checkpointId < parentId), kept);
  }
}

function keepNewest(states: readonly StateNode[], kept: Set<string>): void {
  const newest = states.at(-1);
  if (newest !== undefined) kept.add(newest.checkpointId);
}

/** `states` in order; those with a smaller seq. */
function before(states: readonly StateNode[], seq: number): readonly StateNode[] {
  let low = 0;
  for (let high = states.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((states[middle]?.seq ?? seq) < seq) low = middle + 1;
    else high = middle;
  }
  return states.slice(Math.max(0, low - 1), low);
}

const bySeq = (a: StateNode, b: StateNode) => a.seq - b.seq;
const depth = (ns: string) => ns.split("|").length;
/** A namespace without task ids belongs to a subgraph that keeps one history for the whole thread. */
const isLasting = (ns: string) => !ns.includes(":");
