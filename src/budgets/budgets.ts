// Limits that were set over HTTP or by command, and prices.
import type { BudgetScope, Limits, Price } from "../core/budget.js";
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

export type BudgetKey = Readonly<{ tenantId: TenantId; scope: BudgetScope; refId: string }>;
export type BudgetRow = BudgetKey & Limits & Readonly<{ updatedAt: Date }>;

const COLUMNS = `tenant_id as "tenantId", scope, ref_id as "refId", max_cost::float8 as cost, max_tokens::float8 as tokens,
  max_steps as steps, max_active_ms::float8 as "activeMs", updated_at as "updatedAt"`;

/** What a budget of this scope is about, for a run. */
export function refOf(
  scope: BudgetScope,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
): string {
  switch (scope) {
    case "run":
      return run.runId;
    case "thread":
      return run.threadId;
    case "day":
      return run.tenantId;
  }
}

export async function putBudget(sql: Sql, budget: BudgetKey & Limits): Promise<BudgetRow> {
  const { rows } = await sql.query<BudgetRow>(
    `insert into budgets (tenant_id, scope, ref_id, max_cost, max_tokens, max_steps, max_active_ms)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (tenant_id, scope, ref_id) do update
    set max_cost = excluded.max_cost, max_tokens = excluded.max_tokens, max_steps = excluded.max_steps,
      max_active_ms = excluded.max_active_ms, updated_at = clock_timestamp()
    returning ${COLUMNS}`,
    [budget.tenantId, budget.scope, budget.refId, budget.cost, budget.tokens, budget.steps, budget.activeMs],
  );
  return rows[0] as BudgetRow;
}

/** Those of the tenant, the latest change first; of one scope, or of one thing. */
export async function listBudgets(
  sql: Sql,
  filter: Readonly<{ tenantId: TenantId; scope?: BudgetScope; refId?: string; limit: number }>,
): Promise<BudgetRow[]> {
  const { rows } = await sql.query<BudgetRow>(
    `select ${COLUMNS}
    from budgets
    where tenant_id = $1 and ($2::text is null or scope = $2) and ($3::text is null or ref_id = $3)
    order by updated_at desc, scope, ref_id
    limit $4`,
    [filter.tenantId, filter.scope ?? null, filter.refId ?? null, filter.limit],
  );
  return rows;
}

/** Forgets what was set for runs that are gone. */
export async function forgetRunBudgets(
  sql: Sql,
  gone: Readonly<{ tenantId: TenantId; runIds: readonly string[] }>,
): Promise<void> {
  await sql.query(`delete from budgets where tenant_id = $1 and scope = 'run' and ref_id = any(($2::uuid[])::text[])`, [
    gone.tenantId,
    gone.runIds,
  ]);
}

/** The budgets that were set for this run, its thread and its tenant. */
export async function budgetsOfRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
): Promise<BudgetRow[]> {
  const { rows } = await sql.query<BudgetRow>(
    `select ${COLUMNS}
    from budgets
    where tenant_id = $1 and (scope, ref_id) in (('run', $2), ('thread', $3), ('day', $1))`,
    [run.tenantId, run.runId, run.threadId],
  );
  return rows;
}

export async function putPrice(sql: Sql, price: Price & Readonly<{ tenantId: TenantId }>): Promise<void> {
  await sql.query(
    `insert into prices (tenant_id, model, input_cost, output_cost)
    values ($1, $2, $3, $4)
    on conflict (tenant_id, model) do update
    set input_cost = excluded.input_cost, output_cost = excluded.output_cost, updated_at = clock_timestamp()`,
    [price.tenantId, price.model, price.inputCost, price.outputCost],
  );
}

export async function listPrices(sql: Sql, { tenantId }: Readonly<{ tenantId: TenantId }>): Promise<Price[]> {
  const { rows } = await sql.query<Price>(
    `select model, input_cost::float8 as "inputCost", output_cost::float8 as "outputCost"
    from prices
    where tenant_id = $1
    order by model`,
    [tenantId],
  );
  return rows;
}
