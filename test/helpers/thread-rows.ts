// Threads made of rows, for tests of what moves and sweeps them: no graph, no saver, every part at hand.
import { createHash } from "node:crypto";
import { v7 as uuidv7 } from "uuid";
import type { BodyStore, Db, Deps } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type RunId, type ThreadId, type TimerId } from "../../src/core/ids.js";
import { systemClock, uuidIds } from "../../src/compose.js";
import type { ThreadKey } from "../../src/checkpoint/move-queries.js";
import { createLog } from "../../src/observe/log.js";
import { setTimer } from "../../src/schedule/timers.js";

export function rowDeps(db: Db, bodies: BodyStore): Deps {
  const notifier = { notify: () => {}, listen: () => () => {} };
  return { db, bodies, notifier, clock: systemClock, ids: uuidIds, log: createLog("silent"), random: () => 0.5 };
}

export async function newThread(db: Db): Promise<ThreadKey> {
  const key = { tenantId: DEFAULT_TENANT, threadId: uuidv7() as ThreadId };
  await db.query("insert into threads (tenant_id, thread_id) values ($1, $2)", [key.tenantId, key.threadId]);
  return key;
}

export async function stageNode(db: Db, key: ThreadKey, text: string, kind: 0 | 1 | 2 = 0): Promise<Buffer> {
  const data = Buffer.from(text);
  const hash = createHash("sha256").update(data).digest();
  await db.query(
    `insert into staged_bodies (tenant_id, thread_id, hash, kind, data) values ($1, $2, $3, $4, $5)
    on conflict do nothing`,
    [key.tenantId, key.threadId, hash, kind, data],
  );
  return hash;
}

/** A checkpoint with these values, new at this checkpoint. */
export async function putCheckpoint(
  db: Db,
  key: ThreadKey,
  put: Readonly<{ ns?: string; values: Record<string, string>; kept?: Record<string, string>; head?: string }>,
): Promise<string> {
  const id = uuidv7();
  const versions = {
    ...put.kept,
    ...Object.fromEntries(Object.keys(put.values).map((channel) => [channel, uuidv7()])),
  };
  await db.tx(async (sql) => {
    for (const [channel, text] of Object.entries(put.values)) {
      await sql.query(
        `insert into channel_versions (tenant_id, thread_id, ns, channel, version, data) values ($1, $2, $3, $4, $5, $6)`,
        [key.tenantId, key.threadId, put.ns ?? "", channel, versions[channel], Buffer.from(text)],
      );
    }
    await sql.query(
      `insert into checkpoints (tenant_id, thread_id, ns, checkpoint_id, channels, versions, head)
      values ($1, $2, $3, $4, $5, $6, $7)`,
      [
        key.tenantId,
        key.threadId,
        put.ns ?? "",
        id,
        Object.keys(versions),
        Object.values(versions),
        Buffer.from(put.head ?? '{"f":1}'),
      ],
    );
  });
  return id;
}

export type Write = Readonly<{ task: string; idx: number; path?: string; channel?: string; text: string }>;

/** As the saver's commit writes them: special ones (idx < 0) replace, others keep the first. */
export async function putWrite(db: Db, key: ThreadKey, checkpointId: string, write: Write, ns = ""): Promise<void> {
  await db.query(
    `insert into checkpoint_writes (tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, data)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (tenant_id, thread_id, ns, checkpoint_id, task_id, idx)
    do update set data = excluded.data, channel = excluded.channel where checkpoint_writes.idx < 0`,
    [
      key.tenantId,
      key.threadId,
      ns,
      checkpointId,
      write.task,
      write.idx,
      write.path ?? "",
      write.channel ?? "messages",
      Buffer.from(write.text),
    ],
  );
}

export type RunState = "running" | "success" | "error" | "sleeping" | "pending";

export async function putRun(
  db: Db,
  key: ThreadKey,
  run: Readonly<{ state: RunState; request?: unknown; error?: unknown }>,
): Promise<RunId> {
  const runId = uuidv7() as RunId;
  const json = (value: unknown) => (value === undefined ? null : Buffer.from(JSON.stringify(value)));
  await db.query(
    `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, status, request, error)
    values ($1, $2, $3, $2, 'g', false, 'pending', $4, $5)`,
    [key.tenantId, runId, key.threadId, json(run.request), json(run.error)],
  );
  await setRunState(db, runId, run.state);
  return runId;
}

export async function setRunState(db: Db, runId: RunId, state: RunState): Promise<void> {
  const status = state === "sleeping" ? "pending" : state;
  const running = state === "running";
  await db.query(
    `update runs
    set status = $2, attempt = attempt + $3::int,
      lease_owner = case when $4 then 'test' end,
      lease_expires_at = case when $4 then now() + interval '1 hour' end,
      available_at = case when $5 then now() + interval '1 day' end,
      finished_at = case when $2 in ('success', 'error') then now() end
    where run_id = $1`,
    [runId, status, running ? 1 : 0, running, state === "sleeping"],
  );
}

export async function putStream(db: Db, key: ThreadKey, runId: RunId, firstId: number, events: readonly unknown[]) {
  const lines = events.map((data, i) => JSON.stringify({ id: firstId + i, event: "values", data })).join("\n");
  await db.query(
    `insert into stream_chunks (tenant_id, run_id, first_id, last_id, lines) values ($1, $2, $3, $4, $5)`,
    [key.tenantId, runId, firstId, firstId + events.length - 1, lines],
  );
}

export async function setMoveTimer(db: Db, key: ThreadKey, afterMs = 0): Promise<void> {
  const timerId = uuidv7() as TimerId;
  await setTimer(db, { tenantId: key.tenantId, timerId, kind: "move", refId: key.threadId, when: { afterMs } });
}
