// What a test asks about a thread that was moved, or half moved.
import { expect } from "vitest";
import type { ThreadKey } from "../../src/checkpoint/move-queries.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { type CheckpointRecord, checkpointRecordKey } from "../../src/checkpoint/pack-types.js";
import type { Db, Deps } from "../../src/core/deps.js";
import { newThread, putCheckpoint, putRun, putStream, putWrite, stageNode } from "./thread-rows.js";

/** The record of a moved checkpoint, read as the saver reads it; undefined while it isn't moved. */
export async function recordOf(deps: Deps, key: ThreadKey, id: string, ns = ""): Promise<CheckpointRecord | undefined> {
  const { rows } = await deps.db.query<{
    packId: string;
    key: string;
    offsets: number[];
    hashes: Buffer[];
    block: number;
  }>(
    `select p.pack_id as "packId", p.key, p.block_offsets as offsets, p.block_hashes as hashes, c.block
    from checkpoints c join packs p using (tenant_id, pack_id)
    where c.thread_id = $1 and c.ns = $2 and c.checkpoint_id = $3 and p.status = 'stored'`,
    [key.threadId, ns, id],
  );
  const place = rows[0];
  if (place === undefined) return undefined;
  const blocks = await createPackReader(deps.bodies).readBlocks(place, [place.block]);
  return blocks.get(place.block)?.checkpoints.get(checkpointRecordKey(ns, id));
}

/** Every pointer of the thread leads to an object, by a row that is stored. */
export async function expectNoDanglingPointer(deps: Deps, key: ThreadKey): Promise<void> {
  const { rows } = await deps.db.query<{ key: string; kind: string; status: string; block: number; blocks: number }>(
    `select p.key, p.kind, p.status, x.block, cardinality(p.block_hashes) as blocks
    from (
      select pack_id, block from checkpoints where thread_id = $1 and pack_id is not null
      union all select pack_id, block from bodies where thread_id = $1
      union all select content_pack_id, content_block from runs where thread_id = $1 and content_pack_id is not null
    ) x
    left join packs p using (pack_id)`,
    [key.threadId],
  );
  for (const { key: object, kind, status, block, blocks } of rows) {
    expect(status).toBe("stored");
    if (kind === "pack") expect(block).toBeLessThan(blocks);
    expect((await deps.bodies.read(object)).length).toBeGreaterThan(0);
  }
}

export async function objectsOf(deps: Deps, key: ThreadKey): Promise<string[]> {
  const keys: string[] = [];
  for await (const object of deps.bodies.list(`${key.tenantId}/${key.threadId}/`)) keys.push(object);
  return keys;
}

export async function rowsOf({ db }: Deps, key: ThreadKey): Promise<Record<string, number>> {
  const { rows } = await db.query<Record<string, number>>(
    `select (select count(*) from staged_bodies where thread_id = $1) as staged,
      (select count(*) from channel_versions where thread_id = $1) as versions,
      (select count(*) from checkpoint_writes where thread_id = $1) as writes,
      (select count(*) from checkpoints where thread_id = $1 and head is not null) as heads,
      (select count(*) from packs where thread_id = $1 and status <> 'stored') as unfinished`,
    [key.threadId],
  );
  return rows[0] ?? {};
}
export const NOTHING = { staged: 0, versions: 0, writes: 0, heads: 0, unfinished: 0 };

/** A finished run on a thread with two checkpoints in two namespaces; every text in it says `mark`. */
export async function smallThread(db: Db, mark: string) {
  const key = await newThread(db);
  await stageNode(db, key, `node ${mark}`);
  const first = await putCheckpoint(db, key, {
    values: { messages: `"value ${mark}"` },
    head: `{"f":1,"m":"${mark}"}`,
  });
  await putWrite(db, key, first, { task: "t1", idx: 0, text: `"write ${mark}"` });
  const second = await putCheckpoint(db, key, { values: { messages: `"value 2 ${mark}"`, other: "1" } });
  const inner = await putCheckpoint(db, key, { ns: "sub:1", values: { messages: `"inner ${mark}"` } });
  const run = await putRun(db, key, { state: "error", request: { input: mark }, error: { message: mark } });
  await putStream(db, key, run, 0, [{ text: mark }, { text: `${mark} again` }]);
  return { key, first, second, inner, run };
}
