// What a step of a long conversation costs on our saver, against a saver that keeps nothing and against PostgresSaver: time,
// CPU, statements, bytes, and what reading it back cold takes. One JSON line per measurement, each in a process of its own.
//
//     npm run -s build && node --import tsx test/bench/steps.ts 10,200,500 [noop,perdure,postgres] [react,agent,agent4]
//
// BENCH_DATABASE_URL is a server to use; without it an embedded one is started, with its own settings.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startEmbeddedPostgres } from "../../src/db/embedded/server.js";
import { createLog } from "../../src/observe/log.js";
import { measureSteps, type Plan } from "./measure-steps.js";

const [first = "10,200,500", savers = "noop,perdure", graphs = "agent"] = process.argv.slice(2);

if (first === "--one") {
  console.log(JSON.stringify(await measureSteps(JSON.parse(savers) as Plan)));
} else {
  const server = await openServer();
  try {
    for (const graph of graphs.split(",")) {
      for (const steps of first.split(",")) {
        for (const saver of savers.split(",")) {
          await inItsOwnProcess({ saver, graph, steps: Number(steps), url: server.url } as Plan);
        }
      }
    }
  } finally {
    await server.stop();
  }
}

async function openServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const given = process.env.BENCH_DATABASE_URL;
  if (given) return { url: given, stop: async () => {} };
  const home = await mkdtemp(path.join(os.tmpdir(), "perdure-bench-"));
  const server = await startEmbeddedPostgres({ dataDir: path.join(home, "data"), log: createLog("silent") });
  return {
    url: server.url,
    async stop() {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Its heap and its compiled code are of this measurement only. */
function inItsOwnProcess(plan: Plan): Promise<void> {
  const args = [...process.execArgv, fileURLToPath(import.meta.url), "--one", JSON.stringify(plan)];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a measurement ended with ${code}`))));
  });
}
