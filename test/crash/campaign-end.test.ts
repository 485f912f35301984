// A campaign that is killed leaves nothing behind: no Postgres, no process, no data.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { isRunning } from "../../src/db/embedded/process.js";
import { startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const MAIN = fileURLToPath(new URL("campaign/main.ts", import.meta.url));

test("when a campaign is killed, its Postgres, its processes and its data go with it", async () => {
  const env = { NODE_OPTIONS: `--import=${import.meta.resolve("tsx")}` };
  const campaign = startProcess(["--minutes", "5"], { script: MAIN, env });
  const [, home = "", pids = ""] = await campaign.waitFor(/(\S*perdure-campaign-\w+): (Postgres .*)/);
  const started = [...pids.matchAll(/\d+/g)].map(([pid]) => Number(pid));
  expect(started).toHaveLength(6);
  expect(started.every(isRunning)).toBe(true);
  await campaign.kill();
  await until("all of it to be gone", () => !started.some(isRunning) && !existsSync(home));
}, 120_000);
