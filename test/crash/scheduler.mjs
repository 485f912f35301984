// A process that fires timers: DATABASE_URL, POLL_MS. With NOTIFY=off nothing wakes it.
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { composeEngine, openParts } from "../../dist/compose.js";
import { composeLoops } from "../../dist/compose-loops.js";
import { policiesFrom } from "../../dist/core/policy.js";
import { approvalDefaults } from "../../dist/engine/approval-policy.js";
import { graphsFrom } from "../../dist/engine/graphs.js";
import { createLog } from "../../dist/observe/log.js";

const { DATABASE_URL: databaseUrl, POLL_MS, NOTIFY } = process.env;
const logLevel = process.env.PERDURE_TEST_LOG ?? "silent";
const parts = openParts({
  databaseUrl,
  bodies: "memory:",
  log: createLog(logLevel),
  applicationName: `scheduler/${process.pid}`,
});
if (NOTIFY === "off") parts.deps.notifier.listen = () => () => {};
const agent = new StateGraph(MessagesAnnotation)
  .addNode("model", () => ({}))
  .addEdge("__start__", "model")
  .compile();
const engine = composeEngine(parts, graphsFrom({ agent }), {
  ...{ databaseUrl, leaseMs: 15_000, pollMs: Number(POLL_MS ?? 200), moveAfterMs: 0, maxBlockMs: 60_000 },
  ...{ previews: true, logLevel, retention: null, identityHeaders: false, auth: "open" },
  ...{ approvals: approvalDefaults({}), policyOf: policiesFrom({}), outreachPerDay: 1_000 },
});
const [scheduler] = composeLoops(engine, ["scheduler"], { concurrency: 1 });
process.on("SIGTERM", () => void scheduler.stop().then(() => process.exit(0)));
scheduler.start();
console.log("ready");
