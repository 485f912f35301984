// perdure in a minute, on real parts: an embedded Postgres, real worker processes, the stock LangGraph SDK. It tells what
// it sees, and ends with an error when that is not what the README promises. Only the model is a script: no key is needed.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { followUp } from "./followup.js";
import { crashInToolCall, decideAfterRestart } from "./refund.js";
import { repairFailedResearch } from "./repair.js";
import { startServer } from "./server.js";
import { BrokenPromise, chapter, seconds, tell } from "./story.js";

const LIMIT_MS = 170_000;

type Undo = (() => Promise<void>)[];

async function story(dir: string, undo: Undo): Promise<void> {
  const callLog = path.join(dir, "calls.jsonl");

  chapter("1. Start: perdure dev, an embedded Postgres, two workers");
  const first = await startServer(dir, undo);
  tell(`it answers at ${first.apiUrl}; its workers are ${(await first.workers()).join(" and ")}`);
  const waiting = await crashInToolCall(first, callLog);

  chapter("4. Stop everything, the database too, and start it again");
  await first.stop();
  tell("stopped: API, workers, Postgres");
  const second = await startServer(dir, undo);
  tell(`it answers again; its workers are ${(await second.workers()).join(" and ")}`);
  await decideAfterRestart(second, callLog, waiting);
  await repairFailedResearch(second, callLog);

  await followUp();

  chapter("9. Clean up");
  await second.stop();
  tell("stopped; the demo's folder is deleted");
}

async function main(): Promise<number> {
  console.log(
    "perdure demo: an agent that survives kill -9, waits for a person without holding anything, can be rewound, and gets back to people",
  );
  const dir = await mkdtemp(path.join(tmpdir(), "perdure-demo-"));
  const undo: Undo = [];
  const stopped = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new BrokenPromise(`not done after ${LIMIT_MS / 1000} s`)), LIMIT_MS).unref();
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.once(signal, () => reject(new BrokenPromise(`stopped by ${signal}`)));
    }
  });
  try {
    await Promise.race([story(dir, undo), stopped]);
    console.log(`\nAll of it as promised, in ${Math.round(seconds())} seconds. Next: npm run dev, and the README.`);
    return 0;
  } catch (error) {
    const reason = error instanceof BrokenPromise ? error.message : (error as Error).stack;
    console.error(`\nThe demo ends here. ${reason}\n\nThe server's last lines:\n${await lastLines(dir)}`);
    return 1;
  } finally {
    await Promise.allSettled(undo.map((stop) => stop()));
    await rm(dir, { recursive: true, force: true });
  }
}

async function lastLines(dir: string): Promise<string> {
  const log = await readFile(path.join(dir, "server.log"), "utf8").catch(() => "(it wrote nothing)");
  return log.trimEnd().split("\n").slice(-20).join("\n");
}

process.exit(await main());
