// On the real S3 server: threads are run, forked, moved, pruned, packed anew, copied, swept and deleted, all at the same time. What
// is kept reads as it was, and in the bucket is what some row names, and nothing else.
import { randomUUID } from "node:crypto";
import { Client } from "@langchain/langgraph-sdk";
import { expect, test, vi } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { isEngineError } from "../../src/core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { deleteThread } from "../../src/engine/commands/delete-thread.js";
import { pruneThread } from "../../src/engine/commands/prune-thread.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { repackThread } from "../../src/engine/repack-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { expectNoDanglingPointer } from "../helpers/moved.js";
import { seeded } from "../helpers/random.js";
import { describeS3, newS3Uri } from "../helpers/s3-store.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";

/** Each of a few threads' operations; more of them by PERDURE_TEST_LONG. */
const OPERATIONS = process.env["PERDURE_TEST_LONG"] === undefined ? 40 : 250;
const AT_ONCE = 4;
const SEED = Number(process.env["PERDURE_TEST_SEED"] ?? 7);

type Log = Readonly<{ log?: string[] }>;
/** By thread: in which state each of its runs left it, as JSON; of a copy also the one it began with. */
type Ledger = Map<string, Map<string, string>>;
const BEGIN = "begin";

const keyOf = (threadId: string) => ({ tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });

/** A client of a process that has read nothing yet. */
function coldClient({ engine, deps }: TestEngine): Client {
  const packs = createPackReader(deps.bodies);
  const bodyReader = createBodyReader({ sql: deps.db, bodies: deps.bodies, packs, cacheBytes: 1 << 20 });
  const app = createApp({ ...engine, bodyReader });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } });
}

/** Somebody else was at it, or had deleted it. */
function expectRefused(error: unknown): void {
  const { message, status } = error as Error & { status?: number };
  const refused = (["thread_busy", "not_found", "lease_lost"] as const).some((code) => isEngineError(error, code));
  if (refused || status === 404 || status === 409 || /^(not_found|UserInterrupt): /.test(message)) return;
  throw error;
}

async function act(t: TestEngine, ledger: Ledger, random: () => number): Promise<void> {
  const { client, deps } = t;
  const ids = [...ledger.keys()];
  const id = ids[Math.floor(random() * ids.length)] ?? "";
  const key = keyOf(id);
  const roll = random();
  if (roll < 0.35) {
    const before = random() < 0.2 ? (await client.threads.getHistory(id, { limit: 5 })).at(-1) : undefined;
    const log = [`${randomUUID()} ${"x".repeat(random() < 0.05 ? 1_200_000 : random() * 3_000)}`];
    const { run_id } = await client.runs.create(id, "steps", {
      input: { log },
      ...(before?.checkpoint.checkpoint_id && { checkpointId: before.checkpoint.checkpoint_id }),
    });
    const values = (await client.runs.join(id, run_id)) as Log;
    ledger.get(id)?.set(run_id, JSON.stringify(values.log));
  } else if (roll < 0.5) await moveThread(deps, key, { packBytes: 4_000 });
  else if (roll < 0.7) {
    const policy = { keepLatest: 1 + Math.floor(random() * 3), olderThanMs: null, outcomes: null };
    await pruneThread(deps, { ...t.engine.edits, ...key, policy, thorough: random() < 0.5, dryRun: false });
  } else if (roll < 0.8) await repackThread(deps, key);
  else if (roll < 0.9) {
    const { thread_id } = await client.threads.copy(id);
    const { log } = (await coldClient(t).threads.getState<Log>(thread_id)).values;
    // A run of the original that had just ended when it was copied may not be noted yet.
    ledger.set(thread_id, new Map(log && [[BEGIN, JSON.stringify(log)]]));
  } else if (roll < 0.95) await sweepOrphans(deps, { graceMs: 60_000 });
  else if (ids.length > 2) {
    ledger.delete(id);
    await deleteThread(deps, key);
  } else ledger.set((await client.threads.create()).thread_id, new Map());
}

async function bucket({ deps }: TestEngine): Promise<string[]> {
  const keys: string[] = [];
  for await (const key of deps.bodies.list(`${DEFAULT_TENANT}/`)) keys.push(key);
  return keys.sort();
}

/** Sweeps as if the times of grace were over. */
async function sweepAll({ db, deps }: TestEngine): Promise<void> {
  await db.db.query("update packs set delete_after = now() where status = 'doomed'");
  await sweepOrphans(deps, { graceMs: 0 });
}

const NAMED = `
  select key
  from packs p
  where status = 'stored' and (
    cardinality(bodies) > 0
    or exists (select 1 from checkpoints c where c.pack_id = p.pack_id)
    or exists (select 1 from runs r where p.pack_id in (r.content_pack_id, r.manifest_pack_id, r.manifest_previous_id)))
  order by key`;

describeS3("P11 on S3", (server) => {
  test("what is kept reads as it was, and nothing is in the bucket that nobody names, whatever goes on at once", {
    timeout: 600_000,
  }, async () => {
    vi.stubEnv("AWS_ENDPOINT_URL_S3", server.endpoint);
    vi.stubEnv("AWS_REGION", server.region);
    vi.stubEnv("AWS_ACCESS_KEY_ID", server.accessKeyId);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", server.secretAccessKey);
    const bodies = await newS3Uri(server);
    try {
      await withEngine({ graphs: { steps: stepsGraph(2, () => {}) }, bodies }, async (t) => {
        const random = seeded(SEED);
        const ledger: Ledger = new Map();
        for (let n = 0; n < 3; n++) ledger.set((await t.client.threads.create()).thread_id, new Map());
        let left = OPERATIONS;
        const play = async () => {
          while (left-- > 0) await act(t, ledger, random).catch(expectRefused);
        };
        await Promise.all(Array.from({ length: AT_ONCE }, play));

        const stateOf = async (id: string) =>
          JSON.stringify((await coldClient(t).threads.getState<Log>(id)).values.log);
        for (const [id, states] of ledger) {
          const [last] = await t.client.runs.list(id, { limit: 1 });
          const expected = states.get(last?.run_id ?? BEGIN);
          expect(await stateOf(id)).toBe(expected);
          await moveThread(t.deps, keyOf(id));
          const policy = { keepLatest: 1, olderThanMs: null, outcomes: null };
          await pruneThread(t.deps, { ...t.engine.edits, ...keyOf(id), policy, thorough: true, dryRun: false });
          await repackThread(t.deps, keyOf(id));
          await expectNoDanglingPointer(t.deps, keyOf(id));
          expect(await stateOf(id)).toBe(expected);
        }
        await sweepAll(t);
        const { rows } = await t.db.db.query<{ key: string }>(NAMED);
        expect(await bucket(t)).toEqual(rows.map(({ key }) => key).sort());
        expect((await t.db.db.query("select 1 from packs")).rowCount).toBe(rows.length);

        for (const id of ledger.keys()) await t.client.threads.delete(id);
        await sweepAll(t);
        expect(await bucket(t)).toEqual([]);
        expect((await t.db.db.query("select 1 from packs")).rowCount).toBe(0);
      });
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
