// Tenants (table `tenants`): whose everything is.
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";

const TENANT = /^[a-z0-9][a-z0-9_-]{0,62}$/;

/** As the table has it. */
export function isTenantId(text: string): text is TenantId {
  return TENANT.test(text);
}

/** Makes it unless it is there. */
export async function ensureTenant(sql: Sql, tenantId: TenantId): Promise<void> {
  await sql.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenantId]);
}
