// Ends attempts: run, thread, questions, timers, last stream events and log are true together or not at all. What ends at
// the same time is settled in one round trip.
import { storedPolicy } from "../../approvals/approvals.js";
import { batched } from "../../core/batch.js";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { isTransientDbError } from "../../core/retry.js";
import type { Outcome, RunError } from "../../core/run.js";
import { type Ending, type Settled, type Settlement, settleRuns } from "../../runs/settle.js";
import type { StreamLine } from "../../runs/stream-chunks.js";
import type { Posted } from "../../delivery/outbox.js";
import { leaseLost } from "../lease-lost.js";
import { EPHEMERAL_KEEP_MS } from "./cleanup-timers.js";
import { type HandedBack, handBackRun } from "./hand-back-run.js";

export type SettleOptions = Readonly<{
  moveAfterMs: number;
  /** At most 200 characters of an error for lists, or null when previews are off. */
  preview: (error: RunError) => string | null;
  /** Runs are held back by limits that the database doesn't know: each that ends may let another start. */
  limited?: boolean;
  /** Told how each attempt ended, once that is stored. */
  onEnd?: (outcome: Outcome["kind"]) => void;
}>;

/** `final`: stream events that must not be seen before the outcome. `ifSpent`: those for a run that isn't tried again. */
export type LastChunks = Readonly<{ final: readonly StreamLine[]; ifSpent: readonly StreamLine[] }>;

/**
 * Writes an attempt's outcome, with the stream events that must not be seen before it: questions and errors. Rejects with
 * `lease_lost` when another attempt owns the run; nothing is written then.
 */
export type Settle = (lease: Lease, outcome: Outcome, chunks: LastChunks, posted?: readonly Posted[]) => Promise<void>;

type Ended = Exclude<Outcome, HandedBack>;

/** So many are settled by one statement at most. */
const AT_ONCE = 50;

/** Settles the attempts of one owner. */
export function createSettler(
  deps: Deps,
  { moveAfterMs, preview, limited = false, onEnd = () => {} }: SettleOptions,
): Settle {
  const options = { moveAfterMs, keepEphemeralMs: EPHEMERAL_KEEP_MS };
  const alone = async (settlement: Settlement): Promise<Settled | undefined> =>
    (await settleRuns(deps.db, [settlement], { ...options, wait: true }))[0];
  const together = batched<Settlement, Settled>(
    AT_ONCE,
    (settlements) => settleRuns(deps.db, settlements, { ...options, wait: false }),
    // One that the server refuses must not take the others with it.
    (error) => !isTransientDbError(error),
  );

  return async (lease, outcome, { final, ifSpent }, posted = []) => {
    if (isHandedBack(outcome)) {
      if (await handBackRun(deps, lease, outcome, { finalChunks: final, moveAfterMs })) return onEnd(outcome.kind);
      if (outcome.kind !== "retry" && outcome.kind !== "outage") return;
      return end(lease, { ...outcome, kind: "error", waitsFor: "person" }, [...final, ...ifSpent], []);
    }
    return end(lease, outcome, final, posted);
  };

  async function end(
    lease: Lease,
    outcome: Ended,
    finalChunks: readonly StreamLine[],
    posted: readonly Posted[],
  ): Promise<void> {
    const settlement = { ...settlementOf(deps, lease, outcome, finalChunks, preview), posted };
    const first = await together(settlement);
    const settled = first.how === "locked" ? await alone(settlement) : first;
    if (settled?.how !== "done") throw leaseLost(lease);
    onEnd(outcome.kind);
    if (settled.freed || limited) deps.notifier.notify("runs");
    deps.notifier.notify("stream", lease.runId);
    deps.notifier.notify("ended", lease.runId);
    if (posted.length > 0) deps.notifier.notify("deliveries");
    if (settlement.wakeAt !== null || settlement.questions.length > 0) deps.notifier.notify("timers");
  }
}

function isHandedBack(outcome: Outcome): outcome is HandedBack {
  switch (outcome.kind) {
    case "released":
    case "sleeping":
    case "retry":
    case "outage":
      return true;
    case "success":
    case "interrupted":
    case "error":
      return false;
  }
}

function settlementOf(
  deps: Deps,
  lease: Lease,
  outcome: Ended,
  finalChunks: readonly StreamLine[],
  preview: SettleOptions["preview"],
): Omit<Settlement, "posted"> {
  const interrupts = outcome.kind === "interrupted" ? outcome.interrupts : [];
  return {
    lease,
    finalChunks,
    ending: endingOf(outcome, preview),
    questions: interrupts.map((question) => ({
      ...{ approvalId: deps.ids.next<string>(), ...question },
      policy: storedPolicy(question.policy),
    })),
    wakeAt: outcome.kind === "interrupted" ? outcome.wakeAt : null,
  };
}

function endingOf(outcome: Ended, preview: SettleOptions["preview"]): Ending {
  const ending = {
    status: outcome.kind,
    waitsFor: null,
    resultCheckpointId: outcome.checkpointId,
    errorCode: null,
    errorType: null,
    errorPreview: null,
    error: null,
  };
  switch (outcome.kind) {
    case "success":
      return { ...ending, errorCode: outcome.endedBy ?? null };
    case "interrupted":
      return { ...ending, waitsFor: outcome.interrupts.length > 0 ? "approval" : null };
    case "error":
      return {
        ...ending,
        waitsFor: outcome.waitsFor,
        errorCode: outcome.error.code,
        errorType: outcome.error.type,
        errorPreview: preview(outcome.error),
        error: Buffer.from(JSON.stringify(outcome.error), "utf8"),
      };
  }
}
