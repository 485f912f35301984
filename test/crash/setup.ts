// Crash tests: an API in this process, workers as processes of their own that share its database and bodies.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { withEngine, type TestEngine } from "../helpers/engine.js";
import { agent } from "./graphs/agent.js";
import { asking } from "./graphs/asking.js";
import { blocking } from "./graphs/blocking.js";
import { busy } from "./graphs/busy.js";
import { chat } from "./graphs/chat.js";
import { floating } from "./graphs/floating.js";
import { late } from "./graphs/late.js";
import { long } from "./graphs/long.js";
import { payer } from "./graphs/payer.js";
import { poison } from "./graphs/poison.js";
import { short } from "./graphs/short.js";
import { sleeper } from "./graphs/sleeper.js";
import { spender } from "./graphs/spender.js";
import { steps } from "./graphs/steps.js";
import { talker } from "./graphs/talker.js";
import { tasks } from "./graphs/tasks.js";
import { tooled } from "./graphs/tooled.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));

/** Kept on a machine that is busy, too: what counts as a crash here is one. */
const LEASE_MS = 15_000;
export const POLL_MS = 200;

export type CrashSite = TestEngine &
  Readonly<{
    /** A new journal file's path, for `config.configurable.journal`. */
    journal(): Journal;
    /** Starts a worker process with all loops. */
    worker(env?: Readonly<Record<string, string>>, args?: readonly string[]): TestProcess;
    /** As if the time had passed after which what a dead worker held is given to others. */
    expire(worker: TestProcess): Promise<void>;
  }>;

export type Journal = Readonly<{ path: string; lines(): string[]; count(line: string): number }>;

/** Runs `work` with an API and no worker; kills the workers it started. */
export async function withCrashSite(work: (site: CrashSite) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "perdure-crash-"));
  const workers: TestProcess[] = [];
  try {
    const bodies = `file://${folder}/bodies`;
    const graphs = {
      steps,
      talker,
      tasks,
      agent,
      sleeper,
      poison,
      late,
      long,
      floating,
      blocking,
      busy,
      asking,
      payer,
      spender,
      tooled,
      short,
      chat,
    };
    await withEngine({ graphs, workers: 0, bodies, leaseMs: LEASE_MS }, async (engine) => {
      let journals = 0;
      await work({
        ...engine,
        journal: () => openJournal(join(folder, `journal-${++journals}`)),
        worker: (env = {}, args = []) => {
          const process = startProcess(["worker", "--config", CONFIG, ...args], {
            env: {
              DATABASE_URL: engine.db.url,
              PERDURE_BODIES: bodies,
              PERDURE_LEASE_MS: String(LEASE_MS),
              PERDURE_POLL_MS: String(POLL_MS),
              ...env,
            },
          });
          workers.push(process);
          return process;
        },
        expire: async ({ pid }) => {
          await engine.db.db.query(
            `update runs set lease_expires_at = clock_timestamp()
            where status = 'running' and split_part(lease_owner, '/', 2) = $1::text`,
            [pid],
          );
        },
      });
      // Before the database goes: a worker without one would only complain.
      await Promise.all(workers.map((process) => process.kill()));
    });
  } finally {
    await Promise.all(workers.map((process) => process.kill()));
    rmSync(folder, { recursive: true, force: true });
  }
}

function openJournal(path: string): Journal {
  const lines = () => {
    try {
      // The last word is the process id.
      return readFileSync(path, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => line.replace(/ \d+$/, ""));
    } catch {
      return [];
    }
  };
  return { path, lines, count: (line) => lines().filter((each) => each === line).length };
}
