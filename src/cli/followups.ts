// `perdure followups`: what was promised for when, and taking it back.
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type FollowupId, type ThreadId, type TimerId } from "../core/ids.js";
import { cancelFollowupIn } from "../engine/commands/change-followup.js";
import { followupRecord } from "../engine/followup-record.js";
import { type FollowupStatus, getFollowup, listFollowups } from "../schedule/followups.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;
type Filter = Readonly<{ threadId: ThreadId | null; status: FollowupStatus | null; limit: number }>;

export async function followupsLs({ db }: Deps, filter: Filter, print: Print): Promise<void> {
  const found = await listFollowups(db, { tenantId: DEFAULT_TENANT, offset: 0, ...filter });
  const followups = found.map(followupRecord);
  if (print.json) return print.line(json(followups));
  const rows = followups.map(({ fires_at_local, mode, status, reason, about, depth, thread_id, followup_id }) => ({
    ...{ fires: fires_at_local, mode, status, reason, about, depth },
    ...{ thread: thread_id, followup: followup_id },
  }));
  print.line(table(rows, "There are no such follow-ups."));
}

const SAID = {
  cancelled: "won't be done.",
  suppressed: "was done, and isn't sent.",
  "too late": "is on its way already, or was sent: it is too late.",
  over: "is over: there is nothing to cancel.",
} as const;

export async function followupsCancel(
  { db, notifier, ids }: Deps,
  followupId: FollowupId,
  print: Print,
): Promise<void> {
  const key = { tenantId: DEFAULT_TENANT, followupId };
  if ((await getFollowup(db, key)) === undefined)
    throw new EngineError("not_found", `Follow-up ${followupId} not found`);
  const cancel = { ...key, threadId: null, timerId: ids.next<TimerId>(), reason: "by an operator" };
  const { followup, outcome } = await db.tx((sql) => cancelFollowupIn(sql, cancel));
  notifier.notify("timers");
  if (print.json) return print.line(json({ ...followupRecord(followup), outcome }));
  print.line(`Follow-up ${followupId} ${SAID[outcome]}`);
}
