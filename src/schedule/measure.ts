// Timers that nobody has taken though they are due, over all tenants, for operators.
import type { Sql } from "../core/deps.js";
import { TIMER_KINDS, type TimerKind } from "./timers.js";

export type TimersMeasured = Readonly<{ kind: TimerKind; overdue: number; seconds: number }>;

/** Of each kind that has some: how many, up to a limit, and for how long the first. */
export async function measureTimers(sql: Sql, limit: number): Promise<TimersMeasured[]> {
  const { rows } = await sql.query<TimersMeasured>(
    `select k.kind, found.overdue, found.seconds
    from unnest($1::text[]) k(kind)
    cross join lateral (
      select count(*)::int as overdue, extract(epoch from clock_timestamp() - min(d.due_at))::float8 as seconds
      from (
        select t.due_at
        from timers t
        where t.status = 'due' and t.kind = k.kind and t.due_at <= (select clock_timestamp())
        order by t.due_at
        limit $2
      ) d
    ) found
    where found.overdue > 0`,
    [TIMER_KINDS, limit],
  );
  return rows;
}
