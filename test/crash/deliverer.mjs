// A process that delivers, and dies, stops or is slow where it is told to: DATABASE_URL, POINT (claimed, marked, answered, settled or
// none) when so many as COUNT have come there, HOW (kill or stop), TIMEOUT_MS of a send. With STANDBY it begins at SIGUSR2.
import { openParts } from "../../dist/compose.js";
import { CHANNELS } from "../../dist/delivery/channels/all.js";
import { createAccounts } from "../../dist/engine/channel-accounts.js";
import { createDeliverer } from "../../dist/engine/loops/deliverer.js";
import { createLog } from "../../dist/observe/log.js";

const { DATABASE_URL: databaseUrl, POINT: point, HOW: how, TIMEOUT_MS, COUNT } = process.env;
const timeoutMs = Number(TIMEOUT_MS ?? 500);
const quick = new Map(
  [...CHANNELS].map(([kind, adapter]) => [kind, { ...adapter, defaults: { ...adapter.defaults, timeoutMs } }]),
);
const log = createLog(process.env.PERDURE_TEST_LOG ?? "silent");
const { deps, keys } = openParts({ databaseUrl, bodies: "memory:", log, applicationName: "deliverer" });
let left = Number(COUNT ?? 1);
let all;
const together = new Promise((resolve) => (all = resolve));
const deliverer = createDeliverer(deps, {
  accounts: createAccounts(quick, keys),
  owner: `deliverer/${process.pid}`,
  pollMs: 100,
  async at(reached) {
    if (reached !== point || left === 0) return;
    left -= 1;
    if (left > 0) return together;
    process.kill(process.pid, how === "stop" ? "SIGSTOP" : "SIGKILL");
    // A signal takes a moment.
    await new Promise((resolve) => setTimeout(resolve, 50));
    all();
  },
});
process.on("SIGTERM", () => void deliverer.stop().then(() => process.exit(0)));
if (process.env.STANDBY === undefined) deliverer.start();
else process.once("SIGUSR2", () => deliverer.start());
console.log("ready");
