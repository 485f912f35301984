// What runs stream to clients (table `stream_chunks`): one row holds a batch of events as JSON lines, in id order.
// Appends are fenced by the lease and don't wait for the disk; who appends makes up for what a crash of Postgres loses.
import type { Lease } from "../core/clock.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { RunStatus } from "../core/run.js";

/** One event of a run. `json` is the JSON text of its data, so that what is replayed is what was sent. */
export type StreamLine = Readonly<{ id: number; event: string; json: string }>;

/** Ids of attempt n start at (n - 1) times this: a later attempt's are always higher. */
export const IDS_PER_ATTEMPT = 1_000_000_000;

type RunKey = Readonly<{ tenantId: TenantId; runId: RunId }>;
type Batch = readonly StreamLine[];

export type Append = Readonly<{
  lease: Lease;
  /** Each one row. */
  batches: readonly Batch[];
  /** Of the row that was appended before these; null for none. */
  previousFirstId: number | null;
}>;

/** `previousKept` is false when that row is gone: Postgres crashed, and what was appended shortly before is lost. */
export type Appended = Readonly<{ owned: boolean; previousKept: boolean }>;

/**
 * Appends for many attempts, if their leases still hold: `owned` is false for those whose don't, and then nothing is written.
 * Repeating it changes nothing. Answers in the order of the appends.
 */
export async function appendStreamChunks(sql: Sql, appends: readonly Append[]): Promise<Appended[]> {
  const of = <T>(pick: (append: Append) => T): T[] => appends.map(pick);
  const rows = appends.flatMap(({ lease, batches }) => batches.filter(isFilled).map((batch) => ({ lease, batch })));
  // The row lock makes the fence hold: a plain join would let a stale attempt append after a takeover.
  // The setting is local to this statement's own transaction: one round trip, no wait for the disk.
  const result = await sql.query<Appended & { position: number }>(
    `with relaxed as materialized (
      select set_config('synchronous_commit', 'off', true) as value
    ), asked as (
      select *
      from unnest($1::text[], $2::uuid[], $3::int[], $4::text[], $5::bigint[]) with ordinality
        a(tenant_id, run_id, attempt, owner, previous_id, position)
    ), owner as materialized (
      select r.tenant_id, r.run_id, r.attempt
      from runs r, relaxed
      where (r.tenant_id, r.run_id, r.attempt, r.lease_owner) in (select tenant_id, run_id, attempt, owner from asked)
        and r.status = 'running'
      order by r.run_id
      for no key update of r
    ), appended as (
      insert into stream_chunks (tenant_id, run_id, first_id, last_id, lines)
      select o.tenant_id, o.run_id, b.first_id, b.last_id, b.lines
      from unnest($6::text[], $7::uuid[], $8::int[], $9::bigint[], $10::bigint[], $11::text[])
        b(tenant_id, run_id, attempt, first_id, last_id, lines)
      join owner o using (tenant_id, run_id, attempt)
      order by 1, 2, 3
      on conflict (tenant_id, run_id, first_id) do nothing
    )
    select asked.position, o.run_id is not null as owned,
      asked.previous_id is null or exists (
        select 1
        from stream_chunks s
        where s.tenant_id = asked.tenant_id and s.run_id = asked.run_id and s.first_id = asked.previous_id
      ) as "previousKept"
    from asked
    left join owner o using (tenant_id, run_id, attempt)
    order by asked.position`,
    [
      of(({ lease }) => lease.tenantId),
      of(({ lease }) => lease.runId),
      of(({ lease }) => lease.attempt),
      of(({ lease }) => lease.owner),
      of(({ previousFirstId }) => previousFirstId),
      rows.map(({ lease }) => lease.tenantId),
      rows.map(({ lease }) => lease.runId),
      rows.map(({ lease }) => lease.attempt),
      ...columnsOf(rows.map(({ batch }) => batch)),
    ],
    PREPARED,
  );
  return result.rows.map(({ owned, previousKept }) => ({ owned, previousKept }));
}

/** Inserts one batch inside the caller's transaction, which has locked the run and proven the lease. */
export async function insertStreamChunks(sql: Sql, key: RunKey, batch: Batch): Promise<void> {
  if (batch.length === 0) return;
  await sql.query(
    `insert into stream_chunks (tenant_id, run_id, first_id, last_id, lines)
    select $1, $2, * from unnest($3::bigint[], $4::bigint[], $5::text[])
    on conflict (tenant_id, run_id, first_id) do nothing`,
    [key.tenantId, key.runId, ...columnsOf([batch])],
  );
}

/**
 * The last event of an attempt whose worker can't tell it any more, under the last id an attempt can have: what it told may have been
 * moved. Inside the caller's transaction, which has locked the run.
 */
export async function appendFinalChunk(
  sql: Sql,
  run: RunKey & Readonly<{ attempt: number }>,
  event: Omit<StreamLine, "id">,
): Promise<void> {
  await insertStreamChunks(sql, run, [{ id: run.attempt * IDS_PER_ATTEMPT - 1, ...event }]);
}

/** A run's stream as far as it is in Postgres, with the run's state in the same snapshot. */
export type StreamPage = Readonly<{
  threadId: ThreadId;
  status: RunStatus;
  /** The pack that holds what the run streamed before, if that was moved; every move makes another. */
  packId: string | null;
  /** Null: what it streamed is still kept. */
  expiredAt: Date | null;
  lines: readonly StreamLine[];
  /** There may be more rows after these. */
  full: boolean;
}>;

export type PageKey = RunKey & Readonly<{ afterId: number; maxRows: number }>;

/** Events after `afterId`, at most `maxRows` batches; undefined when there is no such run. */
export async function readStreamPage(sql: Sql, page: PageKey): Promise<StreamPage | undefined> {
  const { rows } = await sql.query<{
    threadId: ThreadId;
    status: RunStatus;
    packId: string | null;
    expiredAt: Date | null;
    lines: string | null;
  }>(
    `select r.thread_id as "threadId", r.status, r.content_pack_id as "packId",
      r.content_expired_at as "expiredAt", c.lines
    from runs r
    left join lateral (
      select s.first_id, s.lines
      from stream_chunks s
      where s.tenant_id = $1 and s.run_id = $2 and s.last_id > $3
        and s.first_id >= coalesce((
          select max(p.first_id)
          from stream_chunks p
          where p.tenant_id = $1 and p.run_id = $2 and p.first_id <= $3
        ), 0)
      order by s.first_id
      limit $4
    ) c on true
    where r.tenant_id = $1 and r.run_id = $2
    order by c.first_id`,
    [page.tenantId, page.runId, page.afterId, page.maxRows],
  );
  const run = rows[0];
  if (run === undefined) return undefined;
  const batches = rows.flatMap((row) => (row.lines === null ? [] : [row.lines]));
  return {
    threadId: run.threadId,
    status: run.status,
    packId: run.packId,
    expiredAt: run.expiredAt,
    lines: batches.flatMap(parseLines).filter((line) => line.id > page.afterId),
    full: batches.length === page.maxRows,
  };
}

/** The highest id stored for the run, -1 when there is none. */
export async function lastStreamId(sql: Sql, key: RunKey): Promise<number> {
  const { rows } = await sql.query<{ lastId: number }>(
    `select coalesce(max(last_id), -1) as "lastId" from stream_chunks where tenant_id = $1 and run_id = $2`,
    [key.tenantId, key.runId],
  );
  return rows[0]?.lastId ?? -1;
}

const isFilled = (batch: Batch): boolean => batch.length > 0;

function columnsOf(batches: readonly Batch[]): [number[], number[], string[]] {
  const filled = batches.filter(isFilled);
  return [
    filled.map((batch) => batch[0]?.id ?? 0),
    filled.map((batch) => batch.at(-1)?.id ?? 0),
    filled.map(formatLines),
  ];
}

/** A batch as its row holds it. */
export function formatLines(batch: Batch): string {
  return batch.map(formatLine).join("\n");
}

function formatLine(line: StreamLine): string {
  return `{"id":${line.id},"event":${JSON.stringify(line.event)},"data":${line.json}}`;
}

/** The events of one row, in order. */
export function parseLines(lines: string): StreamLine[] {
  return lines.split("\n").map(parseLine);
}

const LINE = /^\{"id":(\d+),"event":("(?:[^"\\]|\\.)*"),"data":/;

/** Cuts the data out instead of parsing it: a replay must be equal to the letter, and most readers only pass it on. */
function parseLine(line: string): StreamLine {
  const head = LINE.exec(line);
  if (head === null) throw new Error("A stream row holds a line that is no event");
  return { id: Number(head[1]), event: JSON.parse(head[2] ?? '""') as string, json: line.slice(head[0].length, -1) };
}
