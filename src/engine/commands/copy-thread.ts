// Copies a thread: its states with everything they name, as objects and rows of its own, so that neither thread needs the other.
// The original is held by a short edit. The copy is there with the last transaction or not at all: packs that were copied for
// nothing are pending ones, which the orphan sweep finds.
import { uuidToULID } from "ulid";
import { threadPrefix } from "../../bodies/keys.js";
import { copyRows, insertPackCopy, type PackCopy, type PackInUse, packsInUse } from "../../checkpoint/copy-queries.js";
import { markPackStored } from "../../checkpoint/packs.js";
import { reaches, type Within } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import type { PackId, ThreadId, TimerId } from "../../core/ids.js";
import { retryTransient } from "../../db/retry-transient.js";
import { appendEvent } from "../../runs/events.js";
import { makeNextHead } from "../../runs/order.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { lockThread, type ThreadKey, updateThreadStatus } from "../../runs/thread-lock.js";
import { getThread, insertThread, type ThreadRow } from "../../runs/threads.js";
import { setTimer } from "../../schedule/timers.js";
import { assistantIdOf, graphIdOf } from "../state.js";
import { type MadeThread, threadMadeBefore } from "./create-thread.js";
import { endEdit } from "./end-edit.js";
import { giveBack, type Held, takeThread, whileRenewing } from "./hold-thread.js";
import { leaseLost } from "../lease-lost.js";
import { type Once, takeOnce } from "./make-once.js";

export type CopyInput = ThreadKey &
  Readonly<{
    /** Who holds the original meanwhile. */
    owner: string;
    leaseMs: number;
    /** Which threads the caller may see. */
    within?: Within;
    /** The labels of the copy, made of its original's. */
    labelled?: (threadId: ThreadId, metadata: ThreadRow["metadata"]) => Promise<ThreadRow["metadata"]>;
    once: Once | null;
    /** For tests: called between the steps. */
    reached?: (step: "held" | "uploaded") => Promise<void> | void;
  }>;

/**
 * The copy, idle: runs and open questions stay with the original, and a run without input asks anew on the copy.
 * Throws `conflict` when there is no such thread, `thread_busy`, `body_missing` when a part of it is lost, `unavailable`.
 */
export async function copyThread(deps: Deps, input: CopyInput): Promise<MadeThread> {
  const { tenantId, threadId, owner, leaseMs, once } = input;
  const before = once === null ? undefined : await threadMadeBefore(deps, once);
  if (before !== undefined) return { thread: before, again: true };
  const source = await getThread(deps.db, { tenantId, threadId });
  if (source === undefined || source.ephemeral || !reaches(input.within ?? null, source.metadata)) {
    throw new EngineError("conflict", `Thread ${threadId} can't be copied: there is no such thread`);
  }
  const to: ThreadKey = { tenantId, threadId: deps.ids.next<ThreadId>() };
  const labels = { ...source.metadata, ...("thread_id" in source.metadata && { thread_id: to.threadId }) };
  const metadata = (await input.labelled?.(to.threadId, labels)) ?? labels;
  const original: Original = { source: { ...source, metadata }, to, once };
  const graphId = graphIdOf(source) ?? "";
  const hold = { tenantId, threadId, graphId, assistantId: assistantIdOf(source, graphId), owner, leaseMs };
  const held = await takeThread(deps, hold, { quiet: true });
  try {
    await input.reached?.("held");
    const { copy, next } = await whileRenewing(deps, held.lease, leaseMs, () => copyHeld(deps, held, original, input));
    if (next) deps.notifier.notify("runs");
    return { thread: copy, again: false };
  } catch (error) {
    await giveBack(deps, held.lease, held.thread.status, { quiet: true });
    throw error;
  }
}

/** `source` has the labels that the copy gets. */
type Original = Readonly<{ source: ThreadRow; to: ThreadKey; once: Once | null }>;

type Copied = Readonly<{ copy: ThreadRow; next: boolean }>;

async function copyHeld(deps: Deps, held: Held, original: Original, input: CopyInput): Promise<Copied> {
  const { to } = original;
  const copies = new Map<string, PackCopy>();
  for (;;) {
    for (const pack of await packsInUse(deps.db, held.lease)) {
      if (copies.has(pack.packId)) continue;
      const copy = await copyPack(deps, held.lease, to, pack);
      if (copy !== undefined) copies.set(pack.packId, copy);
    }
    await input.reached?.("uploaded");
    const place = () => deps.db.tx((sql) => placeCopy(deps, sql, { ...original, held, copies }));
    const placed = await retryTransient(place, { ...deps, deadlineMs: input.leaseMs });
    if (placed !== "more") return placed;
  }
}

/** Undefined when the pack was given up meanwhile: what it held is elsewhere now. */
async function copyPack(deps: Deps, from: ThreadKey, to: ThreadKey, pack: PackInUse): Promise<PackCopy | undefined> {
  const packId = deps.ids.next<PackId>();
  const name = pack.kind === "pack" ? `${uuidToULID(packId)}.jsonl.gz` : `objects/${packId}`;
  const copy = { from: pack.packId, packId, key: `${threadPrefix(to)}${name}` };
  if (!(await insertPackCopy(deps.db, to, copy))) return undefined;
  try {
    await deps.bodies.create(copy.key, await deps.bodies.read(pack.key));
  } catch (error) {
    if (!isEngineError(error, "body_missing")) throw error;
    if ((await packsInUse(deps.db, from)).some(({ packId: used }) => used === pack.packId)) throw error;
    return undefined;
  }
  return copy;
}

/** The transaction. "more", and nothing changed, when content moved to packs that are not copied yet. */
async function placeCopy(
  deps: Deps,
  sql: Sql,
  parts: Original & Readonly<{ held: Held; copies: ReadonlyMap<string, PackCopy> }>,
): Promise<Copied | "more"> {
  const { held, source, to, copies } = parts;
  const { lease } = held;
  if ((await lockThread(sql, lease)) === undefined) throw leaseLost(lease);
  const others = (await lockUnfinishedRuns(sql, lease)).filter((run) => run.runId !== lease.runId);
  const packs = (await packsInUse(sql, lease)).map(({ packId }) => copies.get(packId));
  if (packs.includes(undefined)) return "more";
  const used = packs.filter((pack) => pack !== undefined);
  await takeOnce(sql, parts.once, to.threadId);
  await endEdit(sql, lease, { checkpointId: null, errorCode: null });
  await appendEvent(sql, lease, {
    type: "run.settled",
    attempt: 1,
    payload: { outcome: "copy", thread_id: to.threadId },
  });
  const copy = await insertThread(sql, { ...to, metadata: source.metadata, config: source.config });
  if (copy === undefined) throw new EngineError("internal", `The new thread ${to.threadId} exists already`);
  for (const { packId } of used) {
    if (await markPackStored(sql, { tenantId: to.tenantId, packId })) continue;
    throw new EngineError("unavailable", "The copy took too long and its objects were swept; try again");
  }
  await copyRows(sql, lease, to.threadId, used);
  const timer = { tenantId: to.tenantId, timerId: deps.ids.next<TimerId>(), kind: "move", refId: to.threadId } as const;
  await setTimer(sql, { ...timer, when: { afterMs: 0 } });
  const next = await makeNextHead(sql, lease);
  const status = others.length > 0 ? "busy" : held.thread.status;
  await updateThreadStatus(sql, { tenantId: lease.tenantId, threadId: lease.threadId, status, quiet: true });
  return { copy, next };
}
