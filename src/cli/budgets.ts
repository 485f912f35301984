// `perdure budgets`: what runs, threads and days may spend, and what models cost.
import { listBudgets, putPrice } from "../budgets/budgets.js";
import type { BudgetScope, Limits, Price } from "../core/budget.js";
import type { Deps } from "../core/deps.js";
import { DEFAULT_TENANT } from "../core/ids.js";
import { pricesOf, setBudget } from "../engine/budgets.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;

export async function budgetsLs(deps: Deps, filter: Readonly<{ limit: number }>, print: Print): Promise<void> {
  const budgets = await listBudgets(deps.db, { tenantId: DEFAULT_TENANT, ...filter });
  if (print.json) return print.line(json(budgets.map(wire)));
  const rows = budgets.map(({ scope, refId, cost, tokens, steps, activeMs, updatedAt }) => ({
    scope,
    of: refId,
    cost,
    tokens,
    steps,
    "active ms": activeMs,
    set: updatedAt,
  }));
  print.line(table(rows, "No budget was set; those in langgraph.json hold."));
}

export async function budgetsSet(
  deps: Deps,
  budget: Readonly<{ scope: BudgetScope; refId: string }> & Limits,
  print: Print,
): Promise<void> {
  const row = await setBudget(deps.db, { tenantId: DEFAULT_TENANT, ...budget });
  if (print.json) return print.line(json(wire(row)));
  const { scope, refId } = row;
  print.line(
    row.exists
      ? `Set: from the next call on, ${scope} ${refId} is held to it.`
      : `Set, but there is no ${scope} ${refId}: one that is made with this id is held to it.`,
  );
}

export async function pricesLs(deps: Deps, print: Print): Promise<void> {
  const prices = await pricesOf(deps.db, DEFAULT_TENANT);
  if (print.json) return print.line(json(prices.map(wire)));
  const rows = prices.map(({ model, inputCost, outputCost }) => ({ model, input: inputCost, output: outputCost }));
  print.line(`${table(rows, "No model has a price.")}\nPer million tokens; all models whose names begin so.`);
}

export async function pricesSet(deps: Deps, price: Price, print: Print): Promise<void> {
  await putPrice(deps.db, { tenantId: DEFAULT_TENANT, ...price });
  print.line(print.json ? json(wire(price)) : `Set: ${price.model} costs that from the next call on.`);
}
