// Which limits hold for a run, what it and those beside it have spent, and what its models cost.
import { type BudgetKey, type BudgetRow, budgetsOfRun, listPrices, putBudget, refOf } from "../budgets/budgets.js";
import { DEFAULT_PRICES } from "../budgets/default-prices.js";
import { callsOfRun, sumCalls } from "../budgets/model-calls.js";
import { stepsOfRun } from "../checkpoint/queries.js";
import {
  BUDGET_SCOPES,
  type BudgetPolicy,
  type BudgetScope,
  costOf,
  type Limits,
  type Price,
  priceOf,
  type Spent,
} from "../core/budget.js";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import { activeMs } from "../runs/events.js";
import { getRun, type RunRow } from "../runs/runs.js";
import { getThread } from "../runs/threads.js";

type RunOf = Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>;
export type Budget = Readonly<{ scope: BudgetScope; limits: Limits }>;

/** Those with a limit. What was set for just this run, thread or tenant counts instead of what the graph's settings say. */
export function budgetsFor(policy: BudgetPolicy, set: readonly BudgetRow[]): Budget[] {
  return BUDGET_SCOPES.map((scope) => ({
    scope,
    limits: set.find((row) => row.scope === scope) ?? policy.limits[scope],
  })).filter(({ limits: { cost, tokens, steps, activeMs } }) => (cost ?? tokens ?? steps ?? activeMs) !== null);
}

/**
 * Sets all limits of a run, a thread or the tenant's day. Who makes a thread may have chosen its id, and set what it may spend before:
 * `exists` says whether it is there yet. Throws `not_found` for a run that isn't: it can't come.
 */
export async function setBudget(
  sql: Sql,
  budget: BudgetKey & Limits,
): Promise<BudgetRow & Readonly<{ exists: boolean }>> {
  const { tenantId, scope, refId } = budget;
  if (scope === "run" && (await getRun(sql, { tenantId, runId: refId as RunId })) === undefined) {
    throw new EngineError("not_found", `There is no run ${refId}; \`perdure runs ls\` lists them`);
  }
  const exists = scope !== "thread" || (await getThread(sql, { tenantId, threadId: refId as ThreadId })) !== undefined;
  return { ...(await putBudget(sql, budget)), exists };
}

/** Spent and reserved, but for the call that is to be reserved. */
export async function spentOf(sql: Sql, run: RunOf, { scope, limits }: Budget, callId: string | null): Promise<Spent> {
  const { cost, tokens } = await sumCalls(sql, run, scope, callId);
  return {
    cost,
    tokens,
    steps: limits.steps === null ? 0 : await stepsOfRun(sql, run),
    activeMs: limits.activeMs === null ? 0 : await activeMs(sql, run),
  };
}

/** Prices that were set, then those that come with perdure. */
export async function pricesOf(sql: Sql, tenantId: TenantId): Promise<readonly Price[]> {
  const set = await listPrices(sql, { tenantId });
  const names = new Set(set.map(({ model }) => model));
  return [...set, ...DEFAULT_PRICES.filter(({ model }) => !names.has(model))];
}

/** What a message says that it took. */
export type SaidUsage = Readonly<{ model: string | null; inputTokens: number; outputTokens: number; tokens: number }>;

/** For the run record: what was counted if it has a budget, else what its messages say. A cost is null when it can't be known. */
export async function spendingOf(sql: Sql, run: RunRow, policy: BudgetPolicy, said: readonly SaidUsage[]) {
  const running = run.status === "running" || run.status === "pending";
  const counted = await callsOfRun(sql, { ...run, running });
  const budgets = budgetsFor(policy, await budgetsOfRun(sql, run));
  if (counted === undefined && budgets.length === 0) return { ...(await saidSpending(sql, run, said)), budget: null };
  const scopes = await Promise.all(
    budgets.map(async (budget) => ({
      scope: budget.scope,
      ref_id: refOf(budget.scope, run),
      limits: limitsShape(budget.limits),
      spent: spentShape(await spentOf(sql, run, budget, null)),
    })),
  );
  return {
    cost: counted?.cost ?? 0,
    tokens: counted?.tokens ?? 0,
    budget: {
      at_cap: policy.atCap,
      cheaper_model: policy.cheaperModel,
      limits: scopes,
      in_doubt: { calls: counted?.inDoubt ?? 0, tokens: counted?.inDoubtTokens ?? 0, cost: counted?.inDoubtCost ?? 0 },
      // Nobody has said what these cost: they count with their tokens only.
      unpriced_models: counted?.unpriced ?? [],
    },
  };
}

async function saidSpending(sql: Sql, run: RunRow, said: readonly SaidUsage[]) {
  const tokens = said.reduce((sum, message) => sum + message.tokens, 0);
  if (tokens === 0) return { cost: 0, tokens };
  const prices = await pricesOf(sql, run.tenantId);
  let cost: number | null = 0;
  for (const message of said) {
    const price = priceOf(message.model, prices);
    cost = price === null || cost === null ? null : cost + costOf(message, price);
  }
  return { cost, tokens };
}

export function limitsShape({ cost, tokens, steps, activeMs }: Limits) {
  return { cost, tokens, steps, active_ms: activeMs };
}

function spentShape({ cost, tokens, steps, activeMs }: Spent) {
  return { cost, tokens, steps, active_ms: Math.round(activeMs) };
}
