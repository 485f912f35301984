// What this process knows of providers that are out of reach. Nothing is asked of Postgres while it knows of none: then only
// the failures of runs tell, and the breaker in Postgres tells who waits and who tries.
import type { Deps } from "../../core/deps.js";
import type { OutageOutcome } from "../../core/run.js";
import { breakerWaitMs } from "../../runs/breakers.js";
import type { ClaimedRun } from "../../runs/claim.js";
import { closeOutage, leaveTurn } from "../commands/close-outage.js";

export type Outages = Readonly<{
  /** What to wait for instead of starting the run: its graph found that out of reach before. Null: nothing. */
  inTheWay(run: ClaimedRun): Promise<string | null>;
  found(run: ClaimedRun, outcome: OutageOutcome): void;
  /** What the run has waited for works: it got through. Never rejects. */
  over(run: ClaimedRun): Promise<void>;
  /** Its attempt has ended, however. Never rejects. */
  left(run: ClaimedRun): Promise<void>;
}>;

export function createOutages(deps: Deps): Outages {
  /** By tenant and graph: a graph is known to need what it failed without. */
  const known = new Map<string, string>();
  const quietly = async (runId: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      // The next run that gets through closes the breaker; a trial is over in a while anyway.
      const code = String((error as { code?: unknown }).code ?? "internal");
      deps.log.warn({ run_id: runId, code }, "a breaker could not be told how a run has ended");
    }
  };
  const keyOf = ({ tenantId, graphId }: ClaimedRun): string => `${tenantId} ${graphId}`;
  return {
    async inTheWay(run) {
      const provider = known.get(keyOf(run));
      // One that has waited for anything was let through, perhaps as the one that tries: what else it calls it finds out itself.
      if (provider === undefined || run.provider !== null) return null;
      if ((await breakerWaitMs(deps.db, { tenantId: run.tenantId, provider })) !== null) return provider;
      known.delete(keyOf(run));
      return null;
    },
    found(run, { provider }) {
      known.set(keyOf(run), provider);
    },
    async over({ tenantId, runId, provider }) {
      if (provider !== null) await quietly(runId, () => closeOutage(deps, { tenantId, provider }));
    },
    async left({ tenantId, runId, provider }) {
      if (provider !== null) await quietly(runId, () => leaveTurn(deps, { tenantId, provider, runId }));
    },
  };
}
