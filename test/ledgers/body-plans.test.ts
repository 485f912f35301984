// How Postgres looks for bodies of a thread with many packs: each array of hashes is gone through once, whatever is asked for.
import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bodyPlaces, findBodies } from "../../src/checkpoint/body-queries.js";
import { deletePlacedNodes, heldBodies, placeNodes, stagedNodes } from "../../src/checkpoint/move-queries.js";
import { takeBodies } from "../../src/checkpoint/moved-bodies.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";

const PACKS = 150;
const IN_EACH = 40;
const key = { tenantId: DEFAULT_TENANT, threadId: randomUUID() as ThreadId };
const hash = (n: number) => createHash("sha256").update(String(n)).digest();
const hashes = Array.from({ length: PACKS * IN_EACH }, (_, n) => hash(n));
/** Of these there is nothing. */
const others = Array.from({ length: 1_000 }, (_, n) => hash(-1 - n));

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  const insert = `
    insert into packs (tenant_id, pack_id, thread_id, status, kind, key, bodies, body_blocks)
    select $1, id, thread_id, 'stored', 'pack', $1 || '/' || thread_id || '/' || id, $4, $5
    from (select gen_random_uuid() as id, coalesce($2::uuid, gen_random_uuid()) as thread_id from generate_series(1, $3::int)) x`;
  const blocks = Array.from({ length: IN_EACH }, () => 0);
  for (let n = 0; n < PACKS; n++) {
    const held = hashes.slice(n * IN_EACH, (n + 1) * IN_EACH);
    await database.db.query(insert, [key.tenantId, key.threadId, 1, held, blocks]);
  }
  await database.db.query(insert, [key.tenantId, null, 2_000, hashes.slice(0, IN_EACH), blocks]);
  await database.db.query(
    `insert into staged_bodies (tenant_id, thread_id, hash, kind, data)
    select $1, $2, h, 0, '' from unnest($3::bytea[]) h`,
    [key.tenantId, key.threadId, [...hashes.slice(0, 500), ...others.slice(0, 500)]],
  );
});
afterAll(() => database.close());

type Plan = Readonly<{
  "Node Type": string;
  Alias?: string;
  "Actual Loops": number;
  Plans?: readonly Plan[];
}>;

/** How often the most visited list in a plan is gone through, of the statements that `act` sends. All is undone. */
async function mostLoops(act: (sql: Pick<Db, "query">) => Promise<unknown>): Promise<number> {
  const loops: number[] = [];
  const collect = (plan: Plan): void => {
    // What staged bodies name (r) is found by index.
    const isArray = plan["Node Type"] === "Function Scan" && plan.Alias !== "r";
    if (isArray || plan["Node Type"] === "CTE Scan") loops.push(plan["Actual Loops"]);
    for (const inner of plan.Plans ?? []) collect(inner);
  };
  class Undone extends Error {}
  await database.db
    .tx(async (sql) => {
      const query: Db["query"] = async (text, values) => {
        await sql.query("savepoint before");
        const explained = `explain (analyze, format json) ${text}`;
        const { rows } = await sql.query<{ "QUERY PLAN": { Plan: Plan }[] }>(explained, values);
        collect(rows[0]!["QUERY PLAN"][0]!.Plan);
        await sql.query("rollback to before");
        return sql.query(text, values);
      };
      await act({ query });
      throw new Undone();
    })
    .catch((error: unknown) => {
      if (!(error instanceof Undone)) throw error;
    });
  return Math.max(...loops);
}

const keys = [...hashes.slice(400), ...others].map((one) => one.toString("base64url"));
const asked = [...hashes.slice(400), ...others];

it.each<[string, (sql: Pick<Db, "query">) => Promise<unknown>]>([
  ["reading", (sql) => findBodies(sql, key.tenantId, key.threadId, keys)],
  ["marking", (sql) => bodyPlaces(sql, key.tenantId, key.threadId, keys)],
  ["gathering a pack", (sql) => stagedNodes(sql, key, 1_000_000)],
  ["relying on bodies", (sql) => heldBodies(sql, key, asked)],
  [
    "placing a pack",
    (sql) =>
      placeNodes(
        sql,
        key,
        randomUUID(),
        asked.map((of) => ({ hash: of, block: 0 })),
      ),
  ],
  ["dropping what was staged again", (sql) => deletePlacedNodes(sql, key)],
  ["pruning", (sql) => takeBodies(sql, key, asked)],
])("%s goes through each pack's hashes once", async (_, act) => {
  expect(await mostLoops(act)).toBeLessThanOrEqual(PACKS);
});
