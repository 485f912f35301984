// Which threads were deleted (table `tombstones`), so that nothing that is still on its way brings one back.
import { PREPARED, type Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { ThreadKey } from "./thread-lock.js";

/** Says for good that this thread was deleted. */
export async function insertTombstone(sql: Sql, key: ThreadKey): Promise<void> {
  await sql.query("insert into tombstones (tenant_id, thread_id) values ($1, $2) on conflict do nothing", [
    key.tenantId,
    key.threadId,
  ]);
}

export async function isTombstoned(sql: Sql, key: ThreadKey): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    "select exists (select 1 from tombstones where tenant_id = $1 and thread_id = $2) as found",
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows[0]?.found ?? false;
}

/**
 * Throws `conflict` when the id was a deleted thread's: what is still on its way for that one must not end up in a new
 * conversation. To be asked after the insert, which waits for a delete of the same id that is still going on.
 */
export async function refuseReuse(sql: Sql, key: ThreadKey): Promise<void> {
  if (!(await isTombstoned(sql, key))) return;
  throw new EngineError("conflict", `Thread ${key.threadId} was deleted; its id can't be used again`);
}
