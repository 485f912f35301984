// Who writes what, seen by Postgres itself: a trigger on every table notes each row that changes, with its transaction. What the
// victim knows as its boundaries is held against that, so that no write can be without one.
import type { Db } from "../../../src/core/deps.js";

type Known = Readonly<{ label: string; nth: number; xid: string | null }>;

export async function installSpy(db: Db): Promise<void> {
  await db.query("create table public.spied (seq bigserial, what text, xid text, who text)");
  await db.query(`create function public.spy() returns trigger language plpgsql as $$
    begin
      insert into public.spied (what, xid, who)
      values (concat_ws(' ', tg_table_name, case when tg_table_name in ('effects', 'runs') then to_jsonb(new) ->> 'status' end),
        pg_current_xact_id()::text, current_setting('application_name'));
      return null;
    end $$`);
  await db.query(`do $$
    declare t regclass;
    begin
      for t in select c.oid::regclass from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('perdure', 'perdure_store')
      loop
        execute format('create trigger spy after insert or update or delete on %s for each row execute function public.spy()', t);
      end loop;
    end $$`);
}

/** What each boundary wrote: tables, and the states of runs and effects. */
export async function describeWrites<P extends Known>(
  db: Db,
  points: readonly P[],
): Promise<(P & { writes: string })[]> {
  const { rows } = await db.query<{ xid: string; writes: string }>(
    `select xid, string_agg(what, ', ' order by what) as writes
    from (select distinct xid, what from public.spied) s
    group by xid`,
  );
  const writes = new Map(rows.map((row) => [row.xid, row.writes]));
  return points
    .filter(({ nth }) => nth > 0)
    .map((point) => ({ ...point, writes: point.xid === null ? point.label : (writes.get(point.xid) ?? "locks only") }));
}

/** Rows that were written in no transaction that the victim knows; those of the test itself aside. */
export async function writtenElsewhere(db: Db, points: readonly Known[]): Promise<string[]> {
  const { rows } = await db.query<{ what: string; who: string }>(
    // A life that a busy machine draws out meets a renewal of its lease, which is no step of it.
    `select distinct what, who from public.spied where xid <> all ($1::text[]) and who not in ('test', 'perdure test')
      and who not like 'perdure heartbeat%'`,
    [points.flatMap(({ xid }) => (xid === null ? [] : [xid]))],
  );
  return rows.map(({ what, who }) => `${what} by ${who}`);
}
