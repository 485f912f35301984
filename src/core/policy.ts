// How a graph's runs are treated: what langgraph.json may say under "perdure", with defaults.
import { type BudgetPolicy, NO_BUDGET } from "./budget.js";
import type { Priority } from "./run.js";

export type Timeouts = Readonly<{
  toolMs: number | null;
  modelMs: number | null;
  betweenTokensMs: number | null;
}>;

export type RunPolicy = Readonly<{
  /** `edge`: nothing is stored while it runs, only how it ended; it can't wait, and is tried twice at most. */
  mode: "durable" | "edge";
  /** Tries of a step that fails in a way that may pass. */
  maxAttempts: number;
  /** How long a run waits for a provider that is out of reach before a person decides. */
  outagePatienceMs: number;
  timeouts: Timeouts;
  budget: BudgetPolicy;
  /** What happens with a cut-off call of a tool that doesn't say what it does: a person is asked, or it is made again. */
  undeclaredTools: "ask" | "retry";
  /** Whether it has the four tools of follow-ups, whatever its code says. */
  followups: boolean;
  /** Messages that come on a thread within so many ms are one run's input; 0: each has a run of its own. */
  mergeWindowMs: number;
  /** Of runs that don't say otherwise; null: by what they do. */
  priority: Priority | null;
  /** Runs of it that are executed at a time, over all workers, where `perdure limits` doesn't say; null: as many as there are slots. */
  maxRunning: number | null;
}>;

export type PolicyOf = (graphId: string) => RunPolicy;

export const DEFAULT_POLICY: RunPolicy = {
  mode: "durable",
  maxAttempts: 3,
  outagePatienceMs: 24 * 60 * 60_000,
  timeouts: { toolMs: null, modelMs: null, betweenTokensMs: null },
  budget: NO_BUDGET,
  undeclaredTools: "retry",
  followups: false,
  mergeWindowMs: 0,
  priority: null,
  maxRunning: null,
};

/** Policies by graph id, where they differ from the default. */
export function policiesFrom(record: Readonly<Record<string, Partial<RunPolicy>>>): PolicyOf {
  const all = new Map(Object.entries(record).map(([id, own]) => [id, { ...DEFAULT_POLICY, ...own }]));
  return (graphId) => all.get(graphId) ?? DEFAULT_POLICY;
}
