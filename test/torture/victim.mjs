// A process that saves, moves and sweeps one thread, and kills itself at the boundary it is told: before a statement or a
// store operation, while one is on its way, or after its answer. It works with what was built, as production does.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { openBodyStore } from "../../dist/bodies/open.js";
import { createBodyReader } from "../../dist/checkpoint/body-reader.js";
import { createPackReader } from "../../dist/checkpoint/pack-reader.js";
import { createSaver } from "../../dist/checkpoint/saver.js";
import { systemClock, uuidIds } from "../../dist/compose.js";
import { openDb } from "../../dist/db/pool.js";
import { createCombiner } from "../../dist/engine/commit.js";
import { moveThread } from "../../dist/engine/move-thread.js";
import { sweepOrphans } from "../../dist/engine/sweep-orphans.js";
import { createLog } from "../../dist/observe/log.js";
import { checkpointOf, LARGE_FROM_BYTES, STEPS, WRITE_TASK, writesOf } from "./story.mjs";

const say = (line) => writeSync(1, `${line}\n`);
const job = JSON.parse(await new Promise((resolve) => createInterface(process.stdin).once("line", resolve)));
const { databaseUrl, bodies, lease, killAt } = job;

let boundaries = 0;
const die = () => process.kill(process.pid, "SIGKILL");
const boundary = () => {
  boundaries += 1;
  if (boundaries === killAt) die();
};
/** Three boundaries: before, on its way, after. */
const watched = async (act) => {
  boundary();
  const acting = act();
  boundaries += 1;
  if (boundaries === killAt) setTimeout(die, job.delayMs);
  const result = await acting;
  boundary();
  return result;
};

const log = createLog("silent");
const realDb = openDb({ url: databaseUrl, max: 3, log, applicationName: "victim" });
const query = (sql) => (text, values) => watched(() => sql.query(text, values));
const db = {
  query: query(realDb),
  tx: (work) =>
    realDb
      .tx(async (sql) => {
        const result = await work({ query: query(sql) });
        boundary();
        // The commit is on its way.
        boundaries += 1;
        if (boundaries === killAt) setTimeout(die, job.delayMs);
        return result;
      })
      .then((result) => (boundary(), result)),
  close: () => realDb.close(),
};
const realStore = openBodyStore(bodies);
const store = {
  ...realStore,
  create: (key, bytes) => watched(() => realStore.create(key, bytes)),
  read: (key, range) => watched(() => realStore.read(key, range)),
  delete: (keys) => watched(() => realStore.delete(keys)),
};
const notifier = { notify: () => {}, listen: () => () => {} };
const deps = { db, bodies: store, notifier, clock: systemClock, ids: uuidIds, log, random: () => 0.5 };

const { tenantId, threadId, runId, attempt, owner } = lease;
const key = { tenantId, threadId };
const saver = createSaver({
  sql: db,
  tenantId,
  runId,
  attempt,
  bodies: createBodyReader({ sql: db, bodies: store, packs: createPackReader(store), cacheBytes: 1 << 24 }),
  commit: createCombiner(deps, owner).forLease(lease, new AbortController().signal),
  largeBodies: { deps, threadId, fromBytes: LARGE_FROM_BYTES },
});

let config = { configurable: { thread_id: threadId, checkpoint_ns: "" } };
for (let step = 0; step < STEPS; step += 1) {
  const written = step === 0 ? undefined : saver.putWrites(config, writesOf(step - 1), WRITE_TASK, "~path");
  const { checkpoint, metadata, fresh } = checkpointOf(job.ids, step);
  const next = saver.put(config, checkpoint, metadata, fresh);
  await Promise.all([written, next]);
  config = await next;
  say(`put ${step}`);
  if (step === 2) await moveThread(deps, key, { packBytes: 5_000 });
}
await db.query(
  `update runs set status = 'success', head = false, lease_owner = null, lease_expires_at = null, finished_at = now()
  where tenant_id = $1 and run_id = $2 and attempt = $3`,
  [tenantId, runId, attempt],
);
await moveThread(deps, key);
await sweepOrphans(deps, { graceMs: 0 });
say(`done ${boundaries}`);
await db.close();
