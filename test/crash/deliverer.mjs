// A process that delivers, and dies, stops or is slow where it is told to: DATABASE_URL, POINT (claimed, marked, answered, settled or
// none) when so many as COUNT have come there, after so many as AFTER that went on, HOW (kill or stop), TIMEOUT_MS of a send, CONCURRENCY.
// With STANDBY it begins at SIGUSR2. It has the parts that a deliverer needs and no others, so that many of them can be started and killed.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createNotifier } from "../../dist/db/listen.js";
import { openDb } from "../../dist/db/pool.js";
import { CHANNELS } from "../../dist/delivery/channels/all.js";
import { createAccounts } from "../../dist/engine/channel-accounts.js";
import { createDeliverer } from "../../dist/engine/loops/deliverer.js";
import { createLog } from "../../dist/observe/log.js";

const { DATABASE_URL: url, POINT: point, HOW: how, TIMEOUT_MS, COUNT, AFTER, CONCURRENCY, WINDOW_MS } = process.env;
const timeoutMs = Number(TIMEOUT_MS ?? 500);
const quick = new Map(
  [...CHANNELS].map(([kind, adapter]) => [kind, { ...adapter, defaults: { ...adapter.defaults, timeoutMs } }]),
);
const log = createLog(process.env.PERDURE_TEST_LOG ?? "silent");
const clock = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal && { signal }).catch(() => undefined),
};
const random = Math.random;
const db = openDb({ url, max: 10, log, applicationName: "deliverer" });
const notifier = createNotifier({ db, listenUrl: url, log, clock, random });
const deps = { db, notifier, clock, log, random, ids: { next: randomUUID } };
let before = Number(AFTER ?? 0);
let left = Number(COUNT ?? 1);
let all;
const together = new Promise((resolve) => (all = resolve));
const deliverer = createDeliverer(deps, {
  accounts: createAccounts(quick, { current: null, old: [] }),
  owner: `deliverer/${process.pid}`,
  pollMs: 100,
  ...(CONCURRENCY && { concurrency: Number(CONCURRENCY) }),
  ...(WINDOW_MS && { windowMs: Number(WINDOW_MS) }),
  async at(reached) {
    if (reached !== point || left === 0) return;
    if (before > 0) return void (before -= 1);
    left -= 1;
    if (left > 0) return together;
    process.kill(process.pid, how === "stop" ? "SIGSTOP" : "SIGKILL");
    // A signal takes a moment.
    await sleep(50);
    all();
  },
});
process.on("SIGTERM", () => void deliverer.stop().then(() => process.exit(0)));
if (process.env.STANDBY === undefined) deliverer.start();
else {
  process.once("SIGUSR2", () => deliverer.start());
  // Nothing else keeps it alive until then.
  setInterval(() => undefined, 60_000);
}
console.log("ready");
