// How assistants change (tables `assistants`, `assistant_versions`): each change is a version, which stays as it was made.
import type { Sql } from "../core/deps.js";
import type { AssistantId, TenantId } from "../core/ids.js";
import { ASSISTANT_COLUMNS, type AssistantRow } from "./queries.js";

type AssistantKey = Readonly<{ tenantId: TenantId; assistantId: AssistantId }>;
type JsonObject = Readonly<Record<string, unknown>>;

export type NewAssistant = AssistantKey &
  Readonly<{
    graphId: string;
    name: string;
    description: string | null;
    config: JsonObject;
    context: JsonObject;
    metadata: JsonObject;
  }>;

/** With its first version; undefined when the tenant has one with this id. */
export async function insertAssistant(sql: Sql, assistant: NewAssistant): Promise<AssistantRow | undefined> {
  const { rows } = await sql.query<AssistantRow>(
    `with made as (
      insert into assistants (tenant_id, assistant_id, graph_id, name, description, config, context, metadata)
      values ($1, $2, $3, $4, $5, $6, $7, $8)
      on conflict do nothing
      returning *
    ), kept as (
      insert into assistant_versions (tenant_id, assistant_id, version, made_at_start, graph_id, name, description,
        config, context, metadata)
      select tenant_id, assistant_id, version, false, graph_id, name, description, config, context, metadata from made
    )
    select ${ASSISTANT_COLUMNS} from made`,
    [
      assistant.tenantId,
      assistant.assistantId,
      assistant.graphId,
      assistant.name,
      assistant.description,
      JSON.stringify(assistant.config),
      JSON.stringify(assistant.context),
      JSON.stringify(assistant.metadata),
    ],
  );
  return rows[0];
}

export type AssistantPatch = Readonly<{
  graphId?: string | undefined;
  name?: string | undefined;
  description?: string | undefined;
  config?: JsonObject | undefined;
  context?: JsonObject | undefined;
  /** Merged, key by key. */
  metadata?: JsonObject | undefined;
}>;

/** Makes the next version, from the one that counts; undefined when there is no such assistant. */
export async function addVersion(sql: Sql, patch: AssistantKey & AssistantPatch): Promise<AssistantRow | undefined> {
  const { rows } = await sql.query<AssistantRow>(
    `with patched as (
      update assistants
      set version = newest_version + 1, newest_version = newest_version + 1,
        graph_id = coalesce($3, graph_id), name = coalesce($4, name), description = coalesce($5, description),
        config = coalesce($6::jsonb, config), context = coalesce($7::jsonb, context),
        metadata = metadata || coalesce($8::jsonb, '{}'), updated_at = clock_timestamp()
      where tenant_id = $1 and assistant_id = $2
      returning *
    ), kept as (
      insert into assistant_versions (tenant_id, assistant_id, version, made_at_start, graph_id, name, description,
        config, context, metadata)
      select tenant_id, assistant_id, version, false, graph_id, name, description, config, context, metadata
      from patched
    )
    select ${ASSISTANT_COLUMNS} from patched`,
    [
      patch.tenantId,
      patch.assistantId,
      patch.graphId ?? null,
      patch.name ?? null,
      patch.description ?? null,
      jsonOrNull(patch.config),
      jsonOrNull(patch.context),
      jsonOrNull(patch.metadata),
    ],
  );
  return rows[0];
}

/** Makes a version count again; undefined when the assistant has no such version. */
export async function useVersion(
  sql: Sql,
  use: AssistantKey & Readonly<{ version: number }>,
): Promise<AssistantRow | undefined> {
  const { rows } = await sql.query<AssistantRow>(
    `with used as (
      update assistants a
      set version = v.version, graph_id = v.graph_id, name = v.name, description = v.description, config = v.config,
        context = v.context, metadata = v.metadata, updated_at = clock_timestamp()
      from assistant_versions v
      where a.tenant_id = $1 and a.assistant_id = $2
        and v.tenant_id = $1 and v.assistant_id = $2 and v.version = $3
      returning a.*
    )
    select ${ASSISTANT_COLUMNS} from used`,
    [use.tenantId, use.assistantId, use.version],
  );
  return rows[0];
}

export type AssistantVersionRow = Readonly<Omit<AssistantRow, "pin" | "updatedAt">>;

/** Newest first. */
export async function listVersions(
  sql: Sql,
  page: AssistantKey & Readonly<{ metadata?: JsonObject | undefined; limit: number; offset: number }>,
): Promise<AssistantVersionRow[]> {
  const { rows } = await sql.query<AssistantVersionRow>(
    `select assistant_id as "assistantId", graph_id as "graphId", name, description, version, config, context,
      metadata, created_at as "createdAt"
    from assistant_versions
    where tenant_id = $1 and assistant_id = $2 and ($3::jsonb is null or metadata @> $3)
    order by version desc
    limit $4 offset $5`,
    [page.tenantId, page.assistantId, jsonOrNull(page.metadata), page.limit, page.offset],
  );
  return rows;
}

/** With its versions; false when there was none. */
export async function deleteAssistantRow(sql: Sql, key: AssistantKey): Promise<boolean> {
  const { rowCount } = await sql.query("delete from assistants where tenant_id = $1 and assistant_id = $2", [
    key.tenantId,
    key.assistantId,
  ]);
  return rowCount > 0;
}

function jsonOrNull(value: JsonObject | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
