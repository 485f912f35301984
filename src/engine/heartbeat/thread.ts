// Runs in a worker thread with its own connection: a graph that blocks the event loop does not lose its lease by that.
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { openDb } from "../../db/pool.js";
import { createLog } from "../../observe/log.js";
import { renewLeases, type HeldRun } from "../../runs/claim.js";
import { type Change, heartbeatName, type HeartbeatData, type ToMain, type ToThread } from "./messages.js";

/** A row is locked for some milliseconds by each commit of its run; one locked for longer waits for the next beat. */
const LOCKED_PAUSE_MS = 25;
const TRIES_WHEN_LOCKED = 20;

const data = workerData as HeartbeatData;
const port = parentPort;
if (port === null) throw new Error("the heartbeat is started as a worker thread only");
const log = createLog(data.logLevel, { name: "heartbeat" });
const db = openDb({ url: data.databaseUrl, max: 1, log, applicationName: heartbeatName(data.owner) });
/** When the main thread last ticked; both threads read the machine's monotonic clock. */
const ticks = new BigInt64Array(data.ticks);
const held = new Map<string, HeldRun>();
const post = (message: ToMain): void => port.postMessage(message);

port.on("message", (message: ToThread) => {
  if (message.kind === "stop") stop();
  else for (const change of message.changes) apply(change);
});

function apply(change: Change): void {
  if (change.kind === "hold") held.set(change.run.runId, change.run);
  else if (held.get(change.runId)?.attempt === change.attempt) held.delete(change.runId);
}

let ready = false;
let beating = false;
const timer = setInterval(() => void beat(), data.everyMs);
void beat();

async function beat(): Promise<void> {
  if (beating || (ready && held.size === 0)) return;
  const blockedMs = Number((process.hrtime.bigint() - Atomics.load(ticks, 0)) / 1_000_000n);
  if (blockedMs > data.maxBlockMs) {
    log.error({ blocked_ms: blockedMs }, "the event loop is blocked: leases are not renewed until it ticks again");
    return;
  }
  beating = true;
  try {
    let locked = await renew([...held.values()]);
    if (!ready) post({ kind: "ready" });
    ready = true;
    for (let tries = 1; locked.length > 0 && tries < TRIES_WHEN_LOCKED; tries += 1) {
      await sleep(LOCKED_PAUSE_MS);
      locked = await renew(locked);
    }
  } catch (error) {
    log.warn({ code: String((error as { code?: unknown }).code) }, "heartbeat failed");
  } finally {
    beating = false;
  }
}

/** Renews, tells what is lost, and returns the runs whose rows are locked by somebody: their own commits, mostly. */
async function renew(runs: readonly HeldRun[]): Promise<HeldRun[]> {
  const sentAt = process.hrtime.bigint();
  const { renewed, locked } = await renewLeases(db, { owner: data.owner, leaseMs: data.leaseMs, runs });
  post({ kind: "renewed", runIds: renewed, sentAt });
  const owned = new Set([...renewed, ...locked]);
  // Those dropped meanwhile, or claimed again as a later attempt, are not these attempts' business any more.
  const current = runs.filter((run) => held.get(run.runId) === run);
  for (const run of current) {
    if (owned.has(run.runId)) continue;
    held.delete(run.runId);
    post({ kind: "lost", runId: run.runId, attempt: run.attempt });
  }
  return current.filter((run) => locked.includes(run.runId));
}

function stop(): void {
  clearInterval(timer);
  db.close().then(
    () => port?.close(),
    () => port?.close(),
  );
}
