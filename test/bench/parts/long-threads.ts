// Long conversations: what a superstep costs, what is left in storage, and how long reading takes, by length. Each runs in
// a process and a database of its own, one after the other.
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LongThread, Ran } from "../children/long-thread.js";
import type { SaverName } from "../children/savers.js";
import { metered } from "../measure/meter.js";
import { median } from "../measure/numbers.js";
import type { Figures } from "../measure/report.js";
import { type Child, startChild } from "../setup/children.js";
import { ask } from "../setup/postgres.js";
import { costs, type Run } from "./part.js";

const STEPS = "long threads: a superstep";
const STORED = "long threads: storage, and cold reads";
type Agent = LongThread["agent"];
export const LONG_THREAD = (agent: Agent, steps: number, tools = 1): string =>
  `${agent}, ${steps} steps, ${tools} ${tools === 1 ? "tool" : "tools"} a turn`;

type Plan = Readonly<{ agent: Agent; tools: number; steps: Readonly<Partial<Record<SaverName, readonly number[]>>> }>;

// PostgresSaver takes minutes past 500 steps, and MemorySaver gigabytes.
const FULL: readonly Plan[] = (["createAgent", "react"] as const).flatMap((agent) => [
  {
    ...{ agent, tools: 1 },
    steps: {
      perdure: [10, 50, 200, 500, 2_000],
      "no-op": [10, 50, 200, 500, 2_000],
      MemorySaver: [10, 50, 200],
      "PostgresSaver sync": [10, 50, 200, 500],
      "PostgresSaver async": [10, 50, 200],
    },
  },
  {
    ...{ agent, tools: 4 },
    // With so many blobs its history of 200 steps alone takes minutes.
    steps: { perdure: [50, 200, 500], "no-op": [50, 200, 500], "PostgresSaver sync": [50] },
  },
]);
const QUICK: readonly Plan[] = [
  {
    ...{ agent: "createAgent", tools: 1 },
    steps: { perdure: [10, 200, 500], "no-op": [10, 200, 500], "PostgresSaver sync": [10, 200] },
  },
];

/** In one round of three: what costs most here is a peer's minutes, and counts and bytes don't vary. */
export async function measureLongThreads(run: Run): Promise<void> {
  if (run.round > 1) return;
  for (const { agent, tools, steps } of run.quick ? QUICK : FULL) {
    const lengths = [...new Set(Object.values(steps).flat())].sort((a, b) => a - b);
    for (const length of lengths) {
      for (const [saver, taken] of Object.entries(steps) as [SaverName, readonly number[]][]) {
        if (!taken.includes(length) || (!run.peers && saver !== "perdure" && saver !== "no-op")) continue;
        await measureOne(run, { agent, tools, steps: length, saver });
      }
    }
  }
}

type What = Readonly<{ agent: Agent; tools: number; steps: number; saver: SaverName }>;

async function measureOne(run: Run, what: What): Promise<void> {
  const { server, report, round } = run;
  const stores = what.saver !== "no-op" && what.saver !== "MemorySaver";
  const database = stores ? "bench_long_thread" : null;
  const url = database === null ? null : await server.createDatabase(database);
  const bodies = mkdtempSync(path.join(os.tmpdir(), "perdure-bench-bodies-"));
  const child = startChild("long-thread");
  try {
    await child.call("open", { ...what, url, bodies } satisfies LongThread);
    // What stands there already, the thread that warmed the process up included, packed as it will be when it is compared.
    if (url !== null) await compact(url);
    const empty = url === null ? 0 : await storedBytes(url);
    const [ran, reading] = await metered({ server, database, pids: [child.pid] }, () => child.call<Ran>("run"));
    const { "node ms/step": _, ...rest } = costs(reading, what.steps, "step");
    const sample = { round, who: what.saver, work: LONG_THREAD(what.agent, what.steps, what.tools) };
    report.add({
      ...{ ...sample, part: STEPS },
      figures: {
        "ms/step": ran.msPerStep,
        "CPU ms/step": ran.cpuMsPerStep,
        "last/first 10 %": ran.lastToFirst,
        ...rest,
      },
    });
    if (url === null) return;
    const stored = await measureStored(child, what, { url, empty });
    const conversation = { "conversation MB": ran.conversationBytes / 1e6 };
    report.add({ ...{ ...sample, part: STORED }, figures: { ...conversation, ...sizes(stored, ran), ...stored } });
  } finally {
    await child.stop();
    if (database !== null) await server.dropDatabase(database);
    rmSync(bodies, { recursive: true, force: true });
  }
}

/** Bytes at rest against the conversation's, before the move or after it, whichever is more. */
function sizes(stored: Figures, { conversationBytes }: Ran): Figures {
  const after = (stored["moved: Postgres MB"] ?? 0) + (stored["moved: store MB"] ?? 0);
  const most = Math.max(stored["Postgres MB"] ?? 0, after);
  return { "stored/conversation": (most * 1e6) / conversationBytes };
}

async function measureStored(
  child: Child,
  { saver, steps }: What,
  { url, empty }: Readonly<{ url: string; empty: number }>,
): Promise<Figures> {
  const postgres = (await storedBytes(url)) - empty;
  const reads = await measureReads(child, steps);
  if (saver !== "perdure") return { "Postgres MB": postgres / 1e6, ...reads };
  const store = await child.call<number>("move");
  const checkpoints = await countMoved(url);
  const movedReads = await measureReads(child, steps);
  await compact(url);
  const left = (await storedBytes(url)) - empty;
  return {
    "Postgres MB": postgres / 1e6,
    ...reads,
    "moved: Postgres MB": left / 1e6,
    "moved: store MB": store / 1e6,
    "moved: Postgres KB/checkpoint": left / 1_024 / checkpoints,
    ...Object.fromEntries(Object.entries(movedReads).map(([name, value]) => [`moved: ${name}`, value])),
  };
}

/** Cold reads of the newest state and of a page of history; the slowest peer takes seconds for one. */
async function measureReads(child: Child, steps: number): Promise<Figures> {
  const heads: number[] = [];
  for (let n = 0; n < 5; n += 1) heads.push(await child.call<number>("head"));
  const histories: number[] = [];
  if (steps >= 50) histories.push(await child.call<number>("history"));
  return { "head ms": median(heads), "history of 10 ms": histories.length === 0 ? null : median(histories) };
}

/** Vacuums once nobody looks at what was deleted: autovacuum, when it analyses, would keep it there. */
async function compact(url: string): Promise<void> {
  const looking = `select 1 from pg_stat_activity
    where datname = current_database() and backend_xmin is not null and pid <> pg_backend_pid()`;
  for (let tries = 0; tries < 100 && (await ask(url, looking)).length > 0; tries += 1) await sleep(100);
  await ask(url, "vacuum full");
}

/** Everything but the system's own tables, with their indexes. */
async function storedBytes(url: string): Promise<number> {
  const [row] = await ask<{ bytes: number }>(
    url,
    `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 as bytes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname in ('public', 'perdure')`,
  );
  return row?.bytes ?? 0;
}

async function countMoved(url: string): Promise<number> {
  const [row] = await ask<{ checkpoints: number }>(
    url,
    "select count(*)::int as checkpoints from perdure.checkpoints where pack_id is not null",
  );
  return row?.checkpoints ?? 0;
}
