// How Postgres reads a thread: by its index, however many others there are and whatever the filter.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { listTuples } from "../../src/checkpoint/read-tuples.js";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";

const LONG = 10_000;
const thread = randomUUID();
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  const insert = `insert into checkpoints (tenant_id, thread_id, ns, checkpoint_id, run_id, step, source, metadata, channels,
      versions, head)
    select $1, coalesce($2::uuid, gen_random_uuid()), '', gen_random_uuid(), gen_random_uuid(), n, 'loop',
      jsonb_build_object('step', n, 'source', 'loop', 'turn', n / 100), '{}', '{}', '{"f":1}'
    from generate_series(1, $3::int) n`;
  await database.db.query(insert, [DEFAULT_TENANT, thread, LONG]);
  await database.db.query(insert, [DEFAULT_TENANT, null, 6 * LONG]);
  await database.db.query("vacuum analyze checkpoints");
});
afterAll(() => database.close());

type Plan = Readonly<{
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows": number;
  "Rows Removed by Filter"?: number;
  Plans?: readonly Plan[];
}>;

/** What the list's own statement does to the table of checkpoints, with its own values. */
async function scansOf(filter: object | null, limit: number): Promise<Plan[]> {
  const { db } = database;
  const scans: Plan[] = [];
  const collect = (plan: Plan): void => {
    if (plan["Relation Name"] === "checkpoints") scans.push(plan);
    for (const inner of plan.Plans ?? []) collect(inner);
  };
  const query: Db["query"] = async (text, values) => {
    const { rows } = await db.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
      `explain (analyze, format json) ${text}`,
      values,
    );
    collect(rows[0]!["QUERY PLAN"][0]!.Plan);
    return { rows: [], rowCount: 0 };
  };
  const store = createMemoryStore();
  const bodies = createBodyReader({ sql: db, bodies: store, packs: createPackReader(store), cacheBytes: 1_000 });
  const options = { sql: { query }, tenantId: DEFAULT_TENANT, bodies };
  const page = { threadId: thread, ns: "", checkpointId: null, beforeId: null };
  const list = listTuples(options, { ...page, filter: filter === null ? null : JSON.stringify(filter) }, limit);
  for await (const _ of list);
  return scans;
}

const rowsLookedAt = (scan: Plan) => scan["Actual Rows"] + (scan["Rows Removed by Filter"] ?? 0);

it.each([
  ["no filter", null],
  ["a filter that the newest match", { source: "loop" }],
])("a page with %s reads no more checkpoints than it shows", async (_, filter) => {
  const [page, ...others] = await scansOf(filter, 10);
  expect(page).toMatchObject({ "Node Type": "Index Scan", "Index Name": "checkpoints_newest" });
  expect(rowsLookedAt(page!)).toBeLessThanOrEqual(10);
  for (const other of others) expect(other["Node Type"]).not.toBe("Seq Scan");
});

it.each([
  ["few match", { turn: 90 }],
  ["none match", { turn: -1 }],
])(
  "a page with a filter that %s reads the thread's checkpoints by its index, and no other thread's",
  async (_, filter) => {
    const scans = await scansOf(filter, 10);
    expect(rowsLookedAt(scans[0]!)).toBeLessThanOrEqual(LONG);
    for (const scan of scans) expect(scan["Node Type"]).not.toBe("Seq Scan");
  },
);
