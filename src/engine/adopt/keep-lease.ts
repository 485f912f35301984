// Keeps the lease of an edit that may take longer than one lasts. It lives on the event loop: nothing of a graph's runs while
// a thread is copied, and the parts it is copied in are small.
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { renewLeases } from "../../runs/claim.js";
import { leaseLost } from "../lease-lost.js";

export type KeptLease = Readonly<{
  /** Aborts when the lease is lost, or can't be renewed before it ends. */
  signal: AbortSignal;
  release(): void;
}>;

export function keepLease(deps: Deps, lease: Lease, leaseMs: number): KeptLease {
  const lost = new AbortController();
  let renewedAt = deps.clock.monotonicMs();
  const beat = async (): Promise<void> => {
    const sentAt = deps.clock.monotonicMs();
    try {
      const { renewed, locked } = await renewLeases(deps.db, { owner: lease.owner, leaseMs, runs: [lease] });
      if (renewed.length > 0) renewedAt = sentAt;
      else if (locked.length === 0) lost.abort(leaseLost(lease));
    } catch (error) {
      deps.log.warn({ run_id: lease.runId, code: String((error as { code?: unknown }).code) }, "heartbeat failed");
    }
    if (deps.clock.monotonicMs() - renewedAt > leaseMs * 0.9) lost.abort(leaseLost(lease));
  };
  const timer = setInterval(() => void beat(), Math.max(50, leaseMs / 4));
  return { signal: lost.signal, release: () => clearInterval(timer) };
}
