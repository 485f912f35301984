// Which list of its messages a run has in the object store (columns `manifest_…` of `runs`), and which runs need a new one.
import { PREPARED, type Sql } from "../core/deps.js";
import type { PackId, RunId } from "../core/ids.js";
import type { ThreadKey } from "./thread-lock.js";

/** Notes how far the messages of the runs' checkpoints were moved; their manifests have to follow. Inside the transaction that moves them. */
export async function askForManifests(
  sql: Sql,
  key: ThreadKey,
  moved: readonly Readonly<{ ns: string; runId: RunId | null; seq: number }>[],
): Promise<void> {
  const own = moved.filter(({ ns, runId }) => ns === "" && runId !== null);
  if (own.length === 0) return;
  await sql.query(
    `update runs r
    set manifest_due_seq = greatest(r.manifest_due_seq, m.seq)
    from (select run_id, max(seq) as seq from unnest($3::uuid[], $4::bigint[]) u(run_id, seq) group by run_id) m
    where r.tenant_id = $1 and r.thread_id = $2 and r.run_id = m.run_id`,
    [key.tenantId, key.threadId, own.map(({ runId }) => runId), own.map(({ seq }) => seq)],
    PREPARED,
  );
}

/** What the thread's manifests name is elsewhere now, or gone: all of them are to be written again. */
export async function askForNewManifests(sql: Sql, key: ThreadKey): Promise<void> {
  await sql.query(
    `update runs set manifest_seq = null, manifest_previous_id = null
    where tenant_id = $1 and thread_id = $2 and manifest_seq is not null`,
    [key.tenantId, key.threadId],
  );
}

/** The run's checkpoints are gone, and its manifest with them; returns which that was. The thread must be locked. */
export async function withdrawManifest(
  sql: Sql,
  key: ThreadKey & Readonly<{ runId: RunId }>,
): Promise<PackId | undefined> {
  const { rows } = await sql.query<{ packId: PackId | null }>(
    `with before as materialized (
      select run_id, manifest_pack_id as pack_id
      from runs
      where tenant_id = $1 and thread_id = $2 and run_id = $3
      for no key update
    )
    update runs r
    set manifest_pack_id = null, manifest_previous_id = null, manifest_seq = null, manifest_due_seq = null
    from before
    where r.tenant_id = $1 and r.run_id = before.run_id
    returning before.pack_id as "packId"`,
    [key.tenantId, key.threadId, key.runId],
  );
  return rows[0]?.packId ?? undefined;
}

/** Runs whose manifest doesn't reach what was moved of them, in their order, with the checkpoint it has to reach. */
export async function dueManifests(sql: Sql, key: ThreadKey): Promise<{ runId: RunId; dueSeq: number }[]> {
  const { rows } = await sql.query<{ runId: RunId; dueSeq: number }>(
    `select run_id as "runId", manifest_due_seq as "dueSeq"
    from runs
    where tenant_id = $1 and thread_id = $2
      and manifest_due_seq is not null and manifest_due_seq is distinct from manifest_seq
    order by seq`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows;
}

/** `seq` is the checkpoint that the manifest reaches, `dueSeq` the one it has to; null where there is none. */
export type ManifestRow = Readonly<{ packId: PackId | null; seq: number | null; dueSeq: number | null }>;

/** Undefined when the thread has no such run: the states of a copy are of its original's. */
export async function manifestOfRun(
  sql: Sql,
  run: ThreadKey & Readonly<{ runId: RunId }>,
): Promise<ManifestRow | undefined> {
  const { rows } = await sql.query<ManifestRow>(
    `select manifest_pack_id as "packId", manifest_seq as seq, manifest_due_seq as "dueSeq"
    from runs
    where tenant_id = $1 and thread_id = $2 and run_id = $3`,
    [run.tenantId, run.threadId, run.runId],
    PREPARED,
  );
  return rows[0];
}

/**
 * Makes this the run's manifest, unless it has one that reaches as far; false then. `replaced` is the one before, if no other
 * run's manifest links to it. Inside a transaction that holds the thread's lock.
 */
export async function placeManifest(
  sql: Sql,
  key: ThreadKey,
  manifest: Readonly<{ runId: RunId; packId: PackId; previousId: PackId | null; seq: number }>,
): Promise<false | Readonly<{ replaced: PackId | null }>> {
  const { rows } = await sql.query<{ replaced: PackId | null }>(
    `with before as materialized (
      select run_id, manifest_pack_id as pack_id
      from runs
      where tenant_id = $1 and thread_id = $2 and run_id = $3 and (manifest_seq is null or manifest_seq < $6)
      for no key update
    )
    update runs r
    set manifest_pack_id = $4, manifest_previous_id = $5, manifest_seq = $6
    from before
    where r.tenant_id = $1 and r.run_id = before.run_id
    returning case when not exists (
      select 1 from runs o where o.tenant_id = $1 and o.thread_id = $2 and o.manifest_previous_id = before.pack_id
    ) then before.pack_id end as replaced`,
    [key.tenantId, key.threadId, manifest.runId, manifest.packId, manifest.previousId, manifest.seq],
    PREPARED,
  );
  return rows[0] ?? false;
}
