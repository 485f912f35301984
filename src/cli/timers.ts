// `perdure timers`: what will happen at a time.
import type { Deps } from "../core/deps.js";
import { DEFAULT_TENANT } from "../core/ids.js";
import { listTimers, type TimerRow } from "../schedule/timers.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

export async function timersLs(
  deps: Deps,
  filter: Readonly<{ status: TimerRow["status"] | null; limit: number }>,
  print: Output & Readonly<{ json: boolean }>,
): Promise<void> {
  const timers = await listTimers(deps.db, {
    tenantId: DEFAULT_TENANT,
    limit: filter.limit,
    offset: 0,
    ...(filter.status === null ? {} : { status: filter.status }),
  });
  if (print.json) return print.line(json(timers.map(wire)));
  const rows = timers.map(({ dueAt, kind, status, refId, attempts, lastError }) => ({
    due: dueAt,
    kind,
    status,
    of: refId,
    attempts,
    error: lastError,
  }));
  print.line(table(rows, "There are no such timers."));
}
