// What a run may spend and what it spends: arithmetic only. Costs are in whatever currency the prices are in.

/** Where a budget counts: one run, all runs of a thread, all runs of the tenant in one day (UTC). */
export const BUDGET_SCOPES = ["run", "thread", "day"] as const;
export type BudgetScope = (typeof BUDGET_SCOPES)[number];

/** Null: no limit. Steps and active time are those of one run. */
export type Limits = Readonly<{
  cost: number | null;
  tokens: number | null;
  steps: number | null;
  activeMs: number | null;
}>;
export const NO_LIMITS: Limits = { cost: null, tokens: null, steps: null, activeMs: null };
export type Spent = Readonly<{ cost: number; tokens: number; steps: number; activeMs: number }>;

/**
 * What happens when the next call doesn't fit: a person decides, the run ends with what there is, or it goes on with a cheaper
 * model until that doesn't fit either.
 */
export const AT_CAP = ["park", "finish", "model"] as const;
export type AtCap = (typeof AT_CAP)[number];

export type BudgetPolicy = Readonly<{
  limits: Readonly<Record<BudgetScope, Limits>>;
  atCap: AtCap;
  /** Of `atCap: "model"`: what the graph finds as `configurable.model`. */
  cheaperModel: string | null;
}>;

export const NO_BUDGET: BudgetPolicy = {
  limits: { run: NO_LIMITS, thread: NO_LIMITS, day: NO_LIMITS },
  atCap: "park",
  cheaperModel: null,
};

export function hasLimits({ limits }: BudgetPolicy): boolean {
  return BUDGET_SCOPES.some((scope) => Object.values(limits[scope]).some((limit) => limit !== null));
}

/** Per million tokens. */
export type Price = Readonly<{ model: string; inputCost: number; outputCost: number }>;
export type Usage = Readonly<{ inputTokens: number; outputTokens: number }>;

/** The price of the longest name that the model's begins with: "claude-x" is that of "claude-x-20260101" too. */
export function priceOf(model: string | null, prices: readonly Price[]): Price | null {
  if (model === null) return null;
  const fitting = prices.filter((price) => model.startsWith(price.model));
  return fitting.reduce<Price | null>(
    (best, p) => (best === null || p.model.length > best.model.length ? p : best),
    null,
  );
}

export function costOf({ inputTokens, outputTokens }: Usage, price: Price | null): number {
  return price === null ? 0 : (inputTokens * price.inputCost + outputTokens * price.outputCost) / 1_000_000;
}

/** Fewer than any text has, so that what is reserved suffices: most have four. */
const CHARS_PER_TOKEN = 3;
/** What a model may answer that wasn't told how much it may. */
const DEFAULT_OUTPUT_TOKENS = 4_096;

/** What a call may take at most, as far as can be known before it. */
export function estimateOf(inputChars: number, maxOutputTokens: number | null): Usage {
  return {
    inputTokens: Math.ceil(inputChars / CHARS_PER_TOKEN),
    outputTokens: maxOutputTokens ?? DEFAULT_OUTPUT_TOKENS,
  };
}

export type Exceeded = Readonly<{ scope: BudgetScope; what: keyof Limits; limit: number; spent: number }>;

/** The first limit that `spent` with `next` on top would pass; null when all hold. */
export function exceeded(scope: BudgetScope, limits: Limits, spent: Spent, next: Spent): Exceeded | null {
  for (const what of ["cost", "tokens", "steps", "activeMs"] as const) {
    const limit = limits[what];
    if (limit === null || spent[what] + next[what] <= limit) continue;
    return { scope, what, limit, spent: spent[what] };
  }
  return null;
}

/** The next call doesn't fit into a budget. */
export class BudgetExceeded extends Error {
  override readonly name = "BudgetExceeded";
  readonly code = "budget_exceeded";
  constructor(readonly exceeded: Exceeded) {
    const { scope, what, limit, spent } = exceeded;
    const of = scope === "day" ? "today's budget of the tenant" : `the budget of the ${scope}`;
    super(`the next call of a model doesn't fit into ${of}: ${spent} of ${limit} ${what} are spent or reserved`);
  }
}
