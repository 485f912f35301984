// Many people with a conversation each, and follow-ups of theirs, written by a statement each; nothing is sent.
import type { Db } from "../../src/core/deps.js";
import { systemAssistantId } from "../../src/assistants/queries.js";

const ACCOUNT = "00000000-0000-4000-8000-0000000000aa";

/** A person's thread, conversation and contact have the same id, made from their number. */
const ID = (letter: string) => `('0000${letter}000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`;

/** Of the contact with this number. */
export const contactId = (n: number): string => `0000c000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

/** `attributes`: SQL over the person's number `n`. */
export async function addPeople(db: Db, count: number, attributes = "'{}'::jsonb"): Promise<void> {
  await db.query(
    `insert into channel_accounts (tenant_id, channel_account_id, kind, name, credentials, settings)
    values ('default', $1, 'webhook', 'outreach', '{}', '{"assistant_id": "agent"}')`,
    [ACCOUNT],
  );
  const people = `from generate_series(1, ${count}) n`;
  await db.query(`insert into threads (tenant_id, thread_id) select 'default', ${ID("a")} ${people}`);
  await db.query(
    `insert into conversations (tenant_id, conversation_id, channel_account_id, address, address_key, thread_id)
    select 'default', ${ID("b")}, $1, jsonb_build_object('n', n), n::text, ${ID("a")} ${people}`,
    [ACCOUNT],
  );
  await db.query(
    `insert into contacts (tenant_id, contact_id, key, attributes) select 'default', ${ID("c")}, n::text, ${attributes} ${people}`,
  );
  await db.query(
    `insert into contact_conversations (tenant_id, conversation_id, contact_id, position)
    select 'default', ${ID("b")}, ${ID("c")}, 1 ${people}`,
  );
}

/** A reminder for each of the first people, on their thread, due so long from now. */
export async function addFollowups(db: Db, count: number, dueInMs: number): Promise<void> {
  const people = `from generate_series(1, ${count}) n`;
  await db.query(
    `insert into followups (tenant_id, followup_id, thread_id, assistant_id, graph_id, created_by, mode, content, fire_at, chain_id,
      dedupe_sha256)
    select 'default', ${ID("d")}, ${ID("a")}, $1, 'agent', 'agent', 'remind', '{"about": "it", "instruction": "hello"}',
      clock_timestamp() + $2::float8 * interval '1 ms', ${ID("d")}, sha256(n::text::bytea) ${people}`,
    [systemAssistantId("agent"), dueInMs],
  );
  await db.query(
    `insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    select tenant_id, gen_random_uuid(), 'followup', followup_id, fire_at from followups`,
  );
}

/** A daily schedule over all of them, due now. */
export async function addSchedule(db: Db, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const row = {
    ...{ kind: "cron", cron: "0 9 * * *", relative: null, purpose: "utility", mode: "remind", occurrence: "now" },
    ...{ catchup: "all", overlap: "queue", audience: { where: [] } },
    ...more,
  };
  const { rows } = await db.query<{ id: string }>(
    `insert into schedules (tenant_id, schedule_id, name, kind, cron, time_zone, relative, audience, mode, content, purpose, catchup,
      catchup_window_ms, overlap, jitter_ms, next_at)
    values ('default', gen_random_uuid(), gen_random_uuid()::text, $1, $2, 'UTC', $3, $7, $4,
      '{"about": "news", "instruction": "hello"}', $5, $8, 21600000, $9, 0, $6::timestamptz)
    returning schedule_id as id`,
    [
      row.kind,
      row.cron,
      row.relative === null ? null : JSON.stringify(row.relative),
      row.mode,
      row.purpose,
      row.occurrence,
      JSON.stringify({ ...row.audience, channelAccountId: null }),
      row.catchup,
      row.overlap,
    ],
  );
  const id = rows[0]?.id ?? "";
  await db.query(
    `insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    select tenant_id, gen_random_uuid(), 'schedule.fire', schedule_id, next_at from schedules where schedule_id = $1`,
    [id],
  );
  return id;
}
