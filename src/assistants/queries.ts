// Configured graphs (table `assistants`). Every graph has a system assistant whose id follows from the graph's id,
// by the derivation stock clients store.
import { v5 as uuidV5 } from "uuid";
import { type Within, withinParam } from "../core/access.js";
import type { Sql } from "../core/deps.js";
import { type AssistantId, isUuid, type TenantId } from "../core/ids.js";

const NAMESPACE = "6ba7b821-9dad-11d1-80b4-00c04fd430c8";

export type AssistantRow = Readonly<{
  assistantId: AssistantId;
  graphId: string;
  name: string;
  description: string | null;
  version: number;
  /** `latest`, `own`, or the version of the graph's code that its runs are executed with. */
  pin: string;
  config: Readonly<Record<string, unknown>>;
  context: unknown;
  metadata: Readonly<Record<string, unknown>>;
  createdAt: Date;
  updatedAt: Date;
}>;

/** A row of `assistants` as `AssistantRow` names it. */
export const ASSISTANT_COLUMNS = `
  assistant_id as "assistantId", graph_id as "graphId", name, description, version, pin, config, context, metadata,
  created_at as "createdAt", updated_at as "updatedAt"`;

/** The id of a graph's system assistant: `systemAssistantId("agent")` is the same everywhere. */
export function systemAssistantId(graphId: string): AssistantId {
  return uuidV5(graphId, NAMESPACE) as AssistantId;
}

/**
 * Makes sure each graph has its system assistant, with the configuration given at start: another one is a new version, unless somebody
 * has made one since. Returns how many were made or changed.
 */
export async function upsertSystemAssistants(
  sql: Sql,
  tenantId: TenantId,
  graphs: readonly Readonly<{ graphId: string; config: Readonly<Record<string, unknown>>; context: unknown }>[],
): Promise<number> {
  const { rowCount } = await sql.query(
    `with given as (
      select * from unnest($2::uuid[], $3::text[], $4::jsonb[], $5::jsonb[]) g(assistant_id, graph_id, config, context)
    ), made as (
      insert into assistants (tenant_id, assistant_id, graph_id, name, config, context, metadata)
      select $1, assistant_id, graph_id, graph_id, config, context, '{"created_by": "system"}'
      from given
      order by assistant_id
      on conflict (tenant_id, assistant_id) do nothing
      returning *
    ), old as materialized (
      select a.tenant_id, a.assistant_id, g.config, g.context
      from given g
      join assistants a using (assistant_id)
      join assistant_versions v using (tenant_id, assistant_id, version)
      where a.tenant_id = $1 and v.made_at_start and (a.config, a.context) is distinct from (g.config, g.context)
      order by a.assistant_id
      for update of a
    ), changed as (
      update assistants a
      set config = o.config, context = o.context, version = a.newest_version + 1, newest_version = a.newest_version + 1,
        updated_at = clock_timestamp()
      from old o
      where a.tenant_id = o.tenant_id and a.assistant_id = o.assistant_id
      returning a.*
    )
    insert into assistant_versions (tenant_id, assistant_id, version, made_at_start, graph_id, name, description,
      config, context, metadata)
    select tenant_id, assistant_id, version, true, graph_id, name, description, config, context, metadata
    from (select * from made union all select * from changed) new`,
    [
      tenantId,
      graphs.map(({ graphId }) => systemAssistantId(graphId)),
      graphs.map(({ graphId }) => graphId),
      graphs.map(({ config }) => JSON.stringify(config)),
      graphs.map(({ context }) => JSON.stringify(context ?? {})),
    ],
  );
  return rowCount;
}

/** The graphs that the tenant's assistants are of. */
export async function knownGraphIds(sql: Sql, tenantId: TenantId): Promise<string[]> {
  const { rows } = await sql.query<{ graphId: string }>(
    `select distinct graph_id as "graphId" from assistants where tenant_id = $1 order by 1`,
    [tenantId],
  );
  return rows.map(({ graphId }) => graphId);
}

/** The assistant with this id, or the system assistant of the graph with this name. */
export async function getAssistant(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; idOrGraphId: string }>,
): Promise<AssistantRow | undefined> {
  const id = isUuid(key.idOrGraphId) ? key.idOrGraphId : systemAssistantId(key.idOrGraphId);
  const { rows } = await sql.query<AssistantRow>(
    `select ${ASSISTANT_COLUMNS} from assistants where tenant_id = $1 and assistant_id = $2`,
    [key.tenantId, id],
  );
  return rows[0];
}

/** Says which code its runs are executed with; undefined when there is no such assistant. */
export async function setAssistantPin(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; assistantId: AssistantId; pin: string }>,
): Promise<AssistantRow | undefined> {
  const { rows } = await sql.query<AssistantRow>(
    `update assistants
    set pin = $3, updated_at = clock_timestamp()
    where tenant_id = $1 and assistant_id = $2
    returning ${ASSISTANT_COLUMNS}`,
    [key.tenantId, key.assistantId, key.pin],
  );
  return rows[0];
}

/** The tenant's assistants, by graph and name. */
export async function listAssistants(sql: Sql, tenantId: TenantId): Promise<AssistantRow[]> {
  const { rows } = await sql.query<AssistantRow>(
    `select ${ASSISTANT_COLUMNS} from assistants where tenant_id = $1 order by graph_id, name, assistant_id`,
    [tenantId],
  );
  return rows;
}

/** Those with one of these ids, with this name, or whose id ends so; the oldest first. */
export async function assistantsLike(
  sql: Sql,
  like: Readonly<{ tenantId: TenantId; ids: readonly string[]; name: string; idEnd: string }>,
): Promise<AssistantRow[]> {
  const { rows } = await sql.query<AssistantRow>(
    `select ${ASSISTANT_COLUMNS}
    from assistants
    where tenant_id = $1 and (assistant_id = any($2::uuid[]) or name = $3 or right(assistant_id::text, 8) = $4)
    order by created_at, assistant_id
    limit 100`,
    [like.tenantId, like.ids, like.name, like.idEnd],
  );
  return rows;
}

export type AssistantFilter = Readonly<{
  tenantId: TenantId;
  graphId?: string | undefined;
  /** Part of the name, in any case. */
  name?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Only those that who asks may see. */
  within?: Within;
}>;

export type AssistantSortBy = "assistant_id" | "graph_id" | "name" | "created_at" | "updated_at";

export type AssistantPage = AssistantFilter &
  Readonly<{ sortBy: AssistantSortBy; sortOrder: "asc" | "desc"; limit: number; offset: number }>;

function filterParams(filter: AssistantFilter): unknown[] {
  return [
    filter.tenantId,
    filter.graphId ?? null,
    filter.name ?? null,
    filter.metadata === undefined ? null : JSON.stringify(filter.metadata),
    withinParam(filter.within),
  ];
}

export async function searchAssistants(sql: Sql, page: AssistantPage): Promise<AssistantRow[]> {
  const { rows } = await sql.query<AssistantRow>(
    `select ${ASSISTANT_COLUMNS}
    from assistants
    where tenant_id = $1
      and ($2::text is null or graph_id = $2)
      and ($3::text is null or position(lower($3) in lower(name)) > 0)
      and ($4::jsonb is null or metadata @> $4)
      and ($5::jsonb is null or metadata @> $5)
    order by
      case when $6 = 'created_at' and $7 = 'desc' then created_at end desc,
      case when $6 = 'created_at' and $7 = 'asc' then created_at end asc,
      case when $6 = 'updated_at' and $7 = 'desc' then updated_at end desc,
      case when $6 = 'updated_at' and $7 = 'asc' then updated_at end asc,
      case when $6 = 'graph_id' and $7 = 'desc' then graph_id end desc,
      case when $6 = 'graph_id' and $7 = 'asc' then graph_id end asc,
      case when $6 = 'name' and $7 = 'desc' then name end desc,
      case when $6 = 'name' and $7 = 'asc' then name end asc,
      case when $7 = 'desc' then assistant_id end desc,
      case when $7 = 'asc' then assistant_id end asc
    limit $8 offset $9`,
    [...filterParams(page), page.sortBy, page.sortOrder, page.limit, page.offset],
  );
  return rows;
}

export async function countAssistants(sql: Sql, filter: AssistantFilter): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*) as n
    from assistants
    where tenant_id = $1
      and ($2::text is null or graph_id = $2)
      and ($3::text is null or position(lower($3) in lower(name)) > 0)
      and ($4::jsonb is null or metadata @> $4)
      and ($5::jsonb is null or metadata @> $5)`,
    filterParams(filter),
  );
  return rows[0]?.n ?? 0;
}
