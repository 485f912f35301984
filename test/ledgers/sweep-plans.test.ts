// What a loop's look at the tables costs: what is due, old or to be done, and not what there is beside it.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { doomOldPacks } from "../../src/checkpoint/packs.js";
import { pruneToChannels } from "../../src/checkpoint/prune/sweep-queries.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { deleteOldEdits, threadsWithOldRuns } from "../../src/runs/expire.js";
import { claimTimers } from "../../src/schedule/timer-claims.js";
import { nextDueInMs, peekDueTimers } from "../../src/schedule/timers.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";

const ROWS = 10_000;
const DAY_MS = 86_400_000;
const tenantId = DEFAULT_TENANT;
const key = { tenantId, threadId: randomUUID() as ThreadId };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  const { db } = database;
  await db.query("insert into threads (tenant_id, thread_id) values ($1, $2)", [tenantId, key.threadId]);
  const fill = (statement: string) => db.query(`${statement} from generate_series(1, $2::int) n`, [tenantId, ROWS]);
  await fill(`insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    select $1, gen_random_uuid(), 'run.wake', gen_random_uuid(), now() + n * interval '1 min'`);
  await db.query(
    `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, status, finished_at)
    select $1, gen_random_uuid(), $3, $3, 'graph', false, 'success', now() from generate_series(1, $2::int)`,
    [tenantId, ROWS, key.threadId],
  );
  await db.query(
    `insert into packs (tenant_id, pack_id, thread_id, status, kind, key)
    select $1, gen_random_uuid(), $3, 'stored', 'pack', concat($1::text, '/', $3::uuid, '/', n)
    from generate_series(1, $2::int) n`,
    [tenantId, ROWS, key.threadId],
  );
  await db.query("analyze");
  // As it is on a day when much comes in: the planner knows nothing of these.
  await db.query(
    `insert into checkpoints (tenant_id, thread_id, ns, checkpoint_id, channels, versions, head)
    select $1, case when n % 4 = 0 then $3 else gen_random_uuid() end, '', gen_random_uuid(), '{a,b}', '{1,1}', ''
    from generate_series(1, 2 * $2::int) n`,
    [tenantId, ROWS, key.threadId],
  );
});
afterAll(() => database.close());

type Plan = Readonly<{
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: readonly Plan[];
}>;

/** How many rows the statements that `act` sends look at, joins and filters counted. */
async function rowsLookedAt(act: (sql: Pick<Db, "query">) => Promise<unknown>): Promise<number> {
  let rows = 0;
  const count = (plan: Plan): void => {
    const removed = (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Join Filter"] ?? 0);
    rows += (plan["Actual Rows"] + removed) * plan["Actual Loops"];
    for (const inner of plan.Plans ?? []) count(inner);
  };
  const query: Db["query"] = async (text, values) => {
    const explained = await database.db.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
      `explain (analyze, format json) ${text}`,
      values,
    );
    count(explained.rows[0]!["QUERY PLAN"][0]!.Plan);
    return database.db.query(text, values);
  };
  await act({ query });
  return rows;
}

it.each<readonly [string, (sql: Pick<Db, "query">) => Promise<unknown>]>([
  ["timers of a kind that are due", (sql) => claimTimers(sql, { kind: "run.wake", limit: 4, forMs: 1 })],
  ["timers that are due", (sql) => peekDueTimers(sql, { kinds: ["run.wake", "run.release"], limit: 100 })],
  ["when the next timer is due", (sql) => nextDueInMs(sql, ["run.wake", "move"])],
  [
    "threads with old runs",
    (sql) => threadsWithOldRuns(sql, { tenantId, threadId: null, olderThanMs: DAY_MS, after: null, limit: 200 }),
  ],
  ["old edits", (sql) => deleteOldEdits(sql, tenantId, DAY_MS)],
  ["objects to be swept", (sql) => doomOldPacks(sql, { graceMs: DAY_MS, limit: 500 })],
])("to find %s doesn't look at what isn't", async (_, act) => {
  expect(await rowsLookedAt(act)).toBeLessThan(ROWS / 100);
});

it("to prune many states to their delta channels costs each of them, and not each with each", async () => {
  const { rows } = await database.db.query<{ id: string }>(
    "select checkpoint_id as id from checkpoints where thread_id = $1 limit 2000",
    [key.threadId],
  );
  const supports = rows.map(({ id }) => ({ ns: "", checkpointId: id, channels: ["a"] }));
  expect(await rowsLookedAt((sql) => pruneToChannels(sql, key, supports))).toBeLessThan(50 * supports.length);
  expect((await database.db.query("select 1 from checkpoints where channels = '{a}'")).rowCount).toBe(supports.length);
});
