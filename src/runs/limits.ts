// How many runs of a tenant, and of a graph over all tenants, may be executed at a time (`tenants.max_running`, `graph_limits`), and
// how urgent they may be. The claim counts and keeps to them; they hold from the next claim on.
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import { PRIORITY, PRIORITY_NAMES, type Priority, type PriorityName } from "../core/run.js";

/** `default`: as the workers' langgraph.json says, `none`: as many as there are slots. */
export type LimitMax = number | "none" | "default";

/** `best`: the most urgent priority that runs of a tenant may have. */
export type Limit = Readonly<{
  of: "tenant" | "graph";
  id: string;
  max: LimitMax;
  running: number;
  best: PriorityName | null;
}>;

/** As the table says that there is none. */
const NONE = 1_000_000;

/** Every tenant, every graph that has a limit, and how many runs of each are executed now. */
export async function listLimits(sql: Sql): Promise<Limit[]> {
  const { rows } = await sql.query<Omit<Limit, "best" | "max"> & { best: Priority | null; max: number | null }>(
    `select 'tenant' as of, t.tenant_id as id, t.max_running as max,
      (select count(*) from runs r where r.status = 'running' and r.tenant_id = t.tenant_id)::int as running,
      t.best_priority as best
    from tenants t
    union all
    select 'graph', g.graph_id, g.max_running,
      (select count(*) from runs r where r.status = 'running' and r.graph_id = g.graph_id and r.tenant_id > '')::int, null
    from graph_limits g
    order by 1 desc, 2`,
  );
  return rows.map((row) => ({
    ...row,
    max: row.max === null ? "default" : row.max === NONE ? "none" : row.max,
    best: row.best === null ? null : (PRIORITY_NAMES[row.best] ?? null),
  }));
}

/** False when there is no such tenant. */
export async function limitTenant(sql: Sql, tenantId: TenantId, max: LimitMax): Promise<boolean> {
  const { rowCount } = await sql.query("update tenants set max_running = $2 where tenant_id = $1", [
    tenantId,
    stored(max),
  ]);
  return rowCount === 1;
}

/** The most urgent that runs of the tenant may be from now on; false when there is no such tenant. */
export async function limitPriority(sql: Sql, tenantId: TenantId, best: PriorityName): Promise<boolean> {
  const { rowCount } = await sql.query("update tenants set best_priority = $2 where tenant_id = $1", [
    tenantId,
    PRIORITY[best],
  ]);
  return rowCount === 1;
}

export async function bestPriority(sql: Sql, tenantId: TenantId): Promise<Priority> {
  const { rows } = await sql.query<{ best: Priority }>(
    "select best_priority as best from tenants where tenant_id = $1",
    [tenantId],
  );
  return rows[0]?.best ?? PRIORITY.interactive;
}

export async function limitGraph(sql: Sql, graphId: string, max: LimitMax): Promise<void> {
  if (max === "default") {
    await sql.query("delete from graph_limits where graph_id = $1", [graphId]);
    return;
  }
  await sql.query(
    `insert into graph_limits (graph_id, max_running) values ($1, $2)
    on conflict (graph_id) do update set max_running = excluded.max_running`,
    [graphId, stored(max)],
  );
}

function stored(max: LimitMax): number | null {
  return max === "default" ? null : max === "none" ? NONE : max;
}
