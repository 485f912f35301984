// A whole installation in one process, API and all loops, that kills itself with SIGKILL at the boundary it is told: before a
// transaction's commit or after it, before an object is stored or deleted or after it. Which boundaries there are it finds by
// itself: whatever transaction Postgres has given an id has written. It works with what was built, as production does.
// It waits for its job in the file of its argument: JSON, {databaseUrl, bodies, kill: {label, nth, side} | null}.
import { existsSync, readFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { composeEngine, openParts, prepareEngine } from "../../../dist/compose.js";
import { listenApi } from "../../../dist/compose-api.js";
import { composeLoops, LOOPS } from "../../../dist/compose-loops.js";
import { policiesFrom } from "../../../dist/core/policy.js";
import { graphsFrom } from "../../../dist/engine/graphs.js";
import { approvalDefaults } from "../../../dist/engine/approval-policy.js";
import { createLog } from "../../../dist/observe/log.js";
import { life, policies } from "./life.ts";

const say = (what) => writeSync(1, `${JSON.stringify(what)}\n`);
const [jobFile] = process.argv.slice(2);
const parent = process.ppid;
while (!existsSync(jobFile)) {
  // Whoever was to give it the job is gone.
  if (process.ppid !== parent) process.exit();
  await sleep(10);
}
const { databaseUrl, bodies, kill } = JSON.parse(readFileSync(jobFile, "utf8"));

let isLiving = false;
const counts = new Map();

/** The how manieth of its kind; none before the run's life begins. */
function count(label) {
  if (!isLiving) return 0;
  const nth = (counts.get(label) ?? 0) + 1;
  counts.set(label, nth);
  return nth;
}

function come(label, nth, side) {
  if (kill?.label === label && kill.nth === nth && kill.side === side) process.kill(process.pid, "SIGKILL");
}

/** Who of ours asked: the file, as `engine/commit`. */
function caller() {
  Error.stackTraceLimit = 30;
  for (const line of (new Error().stack ?? "").split("\n")) {
    const file = /\/(?:dist|src)\/(.+?)\.[jt]s:/.exec(line)?.[1];
    if (file !== undefined && !/^(db|core|bodies)\/|executor\/patience/.test(file)) return file;
  }
  return "somewhere";
}

const log = createLog("silent");
const parts = openParts({ databaseUrl, bodies, log, applicationName: "victim" });
const { db, bodies: store } = parts.deps;

async function transaction(label, work) {
  let [xid, nth] = [null, 0];
  const result = await db.tx(async (sql) => {
    const value = await work(sql);
    const { rows } = await sql.query("select pg_current_xact_id_if_assigned()::text as xid");
    ({ xid } = rows[0]);
    if (xid === null) return value;
    nth = count(label);
    come(label, nth, "before");
    return value;
  });
  if (xid === null) return result;
  say({ point: label, nth, xid });
  come(label, nth, "after");
  return result;
}

async function object(label, act) {
  const nth = count(label);
  come(label, nth, "before");
  const result = await act();
  say({ point: label, nth, xid: null });
  come(label, nth, "after");
  return result;
}

const deps = {
  ...parts.deps,
  db: {
    ...db,
    query: (...statement) => transaction(caller(), (sql) => sql.query(...statement)),
    tx: (work) => transaction(caller(), work),
  },
  bodies: {
    ...store,
    create: (...put) => object("object stored", () => store.create(...put)),
    delete: (...keys) => object("objects deleted", () => store.delete(...keys)),
  },
};

const graphs = graphsFrom({ life, cautious: life });
const engine = composeEngine({ ...parts, deps }, graphs, {
  databaseUrl,
  leaseMs: 30_000,
  pollMs: 100,
  moveAfterMs: 0,
  maxBlockMs: 60_000,
  previews: true,
  adoptGraph: null,
  retention: null,
  approvals: approvalDefaults({}),
  identityHeaders: false,
  auth: "open",
  policyOf: policiesFrom(policies),
  logLevel: "silent",
});
await prepareEngine(engine);
for (const loop of composeLoops(engine, LOOPS, { concurrency: 2 })) loop.start();
const { url } = await listenApi(engine, { host: "127.0.0.1", port: 0 });
isLiving = true;
say({ url });
