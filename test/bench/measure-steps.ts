// One measurement of steps.ts: a scripted agent runs so many supersteps on one saver; then its thread is weighed and read.
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { Session } from "node:inspector/promises";
import { performance } from "node:perf_hooks";
import { HumanMessage } from "@langchain/core/messages";
import { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { BodyStore, Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { migrate } from "../../src/db/migrate.js";
import { openDb } from "../../src/db/pool.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { createLog } from "../../src/observe/log.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";
import { benchAgent, conversationBytes } from "./step-agents.js";
import { serverCpuMs } from "./server-cpu.js";

export type Plan = Readonly<{
  saver: "noop" | "perdure" | "postgres";
  graph: "react" | "agent" | "agent4";
  steps: number;
  url: string;
  /** Where to write a CPU profile of the run, for Chrome's inspector. */
  profile?: string;
}>;

type Bench = Readonly<{
  saver: BaseCheckpointSaver;
  statements: () => number;
  /** Sizes and cold reads of the thread, after the run. */
  finish(threadId: string): Promise<object>;
  close(): Promise<void>;
}>;

const WARM_UP_STEPS = 40;
const READS = 3;

export async function measureSteps(plan: Plan): Promise<object> {
  const bench = await open(plan);
  const warmUp = randomUUID();
  await run(plan, bench.saver, warmUp, WARM_UP_STEPS);
  await bench.saver.deleteThread(warmUp);
  const threadId = randomUUID();
  const before = { node: process.cpuUsage(), server: await serverCpuMs(plan.url), statements: bench.statements() };
  const times = await profiled(plan.profile, () => run(plan, bench.saver, threadId, plan.steps));
  const { user, system } = process.cpuUsage(before.node);
  const steps = times.length - 1;
  const tenth = Math.max(4, Math.floor(steps / 10));
  const perStep = (from: number, to: number) => ((times[to] ?? 0) - (times[from] ?? 0)) / (to - from);
  const { url: _, profile: __, ...named } = plan;
  const result = {
    ...named,
    ms: round(perStep(0, steps)),
    lastToFirst: round(perStep(steps - tenth, steps) / perStep(0, tenth)),
    cpuMs: round((user + system) / 1_000 / steps),
    serverCpuMs: round(((await serverCpuMs(plan.url)) - before.server) / steps),
    statements: round((bench.statements() - before.statements) / steps),
    rssMb: Math.round(process.resourceUsage().maxRSS / 1_024),
    conversation: conversationBytes(plan),
    ...(await bench.finish(threadId)),
  };
  await bench.close();
  return result;
}

async function profiled<T>(file: string | undefined, work: () => Promise<T>): Promise<T> {
  if (file === undefined) return work();
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.start");
  const result = await work();
  const { profile } = await session.post("Profiler.stop");
  await writeFile(file, JSON.stringify(profile));
  session.disconnect();
  return result;
}

/** When each superstep was streamed, in ms. */
async function run(plan: Plan, saver: BaseCheckpointSaver, threadId: string, steps: number): Promise<number[]> {
  const graph = benchAgent({ ...plan, steps }, saver);
  const times = [performance.now()];
  const config = {
    configurable: { thread_id: threadId },
    metadata: { run_id: randomUUID() },
    recursionLimit: steps + 50,
    durability: "sync" as const,
    streamMode: "updates" as const,
  };
  const input = { messages: [new HumanMessage("begin")] };
  let last = "";
  for await (const update of await graph.stream(input, config)) {
    // Parallel tools are streamed one by one.
    const name = Object.keys(update as object).join();
    if (name !== last || name !== "tools") times.push(performance.now());
    else times[times.length - 1] = performance.now();
    last = name;
  }
  return times;
}

async function open(plan: Plan): Promise<Bench> {
  if (plan.saver === "noop") {
    return { saver: new NoopSaver(), statements: () => 0, finish: async () => ({}), close: async () => {} };
  }
  const admin = new pg.Client(plan.url);
  await admin.connect();
  const name = `bench_${randomUUID().replaceAll("-", "")}`;
  await admin.query(`create database ${name}`);
  const url = new URL(plan.url);
  url.pathname = `/${name}`;
  const bench = plan.saver === "perdure" ? await openOurs(url.href) : await openPostgresSaver(url.href);
  return {
    ...bench,
    async close() {
      await bench.close();
      await admin.query(`drop database ${name} with (force)`);
      await admin.end();
    },
  };
}

async function openOurs(url: string): Promise<Bench> {
  const db = openDb({ url, max: 10, log: createLog("silent"), applicationName: "bench", statementTimeoutMs: 0 });
  await migrate(db);
  const counted = counting(db);
  const store = createMemoryStore();
  const savers = createTestSavers(counted.db, store);
  return {
    saver: savers.forAny() as unknown as BaseCheckpointSaver,
    statements: counted.count,
    finish: async (threadId) => {
      const reads = await coldReads(counted, () => savers.forAny({ bodies: savers.newReader() }), threadId);
      const staged = await weigh(db);
      await moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
      const moved = await weigh(db);
      const packs = await bytesOf(store);
      const readMoved = await coldReads(counted, () => savers.forAny({ bodies: savers.newReader() }), threadId);
      return { reads, readMoved, staged, moved, packs };
    },
    close: () => db.close(),
  };
}

async function openPostgresSaver(url: string): Promise<Bench> {
  let statements = 0;
  const pool = new pg.Pool({ connectionString: url });
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    statements += 1;
    return (query as (...all: unknown[]) => unknown).apply(this, args);
  } as typeof query;
  const saver = new PostgresSaver(pool);
  await saver.setup();
  const counted = { count: () => statements };
  return {
    saver,
    statements: counted.count,
    finish: async (threadId) => ({ reads: await coldReads(counted, () => new PostgresSaver(pool), threadId) }),
    close: () => pool.end(),
  };
}

/** `cpuMs` is this process's, with its threads. */
type Reads = Readonly<{ ms: number; cpuMs: number; statements: number }>;

/** Medians over readers that have nothing cached. */
async function coldReads(
  counted: Readonly<{ count: () => number }>,
  make: () => ReturnType<TestSavers["forAny"]> | PostgresSaver,
  threadId: string,
): Promise<Record<string, Reads>> {
  const config = { configurable: { thread_id: threadId, checkpoint_ns: "" } };
  const listed = async (limit: number) => {
    let n = 0;
    for await (const tuple of make().list(config, { limit })) n += tuple.checkpoint.v;
    return n;
  };
  const kinds: Record<string, () => Promise<unknown>> = {
    head: () => make().getTuple(config),
    history10: () => listed(10),
    history100: () => listed(100),
  };
  const reads: Record<string, Reads> = {};
  for (const [kind, read] of Object.entries(kinds)) {
    const times: number[] = [];
    const before = counted.count();
    const cpu = process.cpuUsage();
    for (let i = 0; i < READS; i++) {
      const start = performance.now();
      await read();
      times.push(performance.now() - start);
    }
    const ms = times.sort((a, b) => a - b)[Math.floor(READS / 2)] ?? 0;
    const { user, system } = process.cpuUsage(cpu);
    const cpuMs = round((user + system) / 1_000 / READS);
    reads[kind] = { ms: round(ms), cpuMs, statements: round((counted.count() - before) / READS) };
  }
  return reads;
}

function counting(db: Db): Readonly<{ db: Db; count: () => number }> {
  let n = 0;
  const query: Db["query"] = (text, values, options) => {
    n += 1;
    return db.query(text, values, options);
  };
  return { db: { ...db, query }, count: () => n };
}

const TABLES = ["checkpoints", "channel_versions", "checkpoint_writes", "staged_bodies", "packs"];

/** Bytes per checkpoint in Postgres, with indexes, as they are and after `vacuum full`. */
async function weigh(db: Db) {
  const sizes = async () => {
    const { rows } = await db.query<{ table: string; bytes: number }>(
      `select t as table, pg_total_relation_size(t::regclass) as bytes from unnest($1::text[]) t`,
      [TABLES],
    );
    return rows;
  };
  const { rows } = await db.query<{ n: number }>("select count(*) as n from checkpoints");
  const n = rows[0]?.n ?? 1;
  const total = (of: readonly { bytes: number }[]) => of.reduce((sum, { bytes }) => sum + bytes, 0);
  const loose = total(await sizes());
  for (const table of TABLES) await db.query(`vacuum full ${table}`);
  const tight = await sizes();
  return {
    total: total(tight),
    loosePerCheckpoint: Math.round(loose / n),
    perCheckpoint: Math.round(total(tight) / n),
    tables: Object.fromEntries(tight.map(({ table, bytes }) => [table, Math.round(bytes / n)])),
  };
}

async function bytesOf(store: BodyStore): Promise<number> {
  let bytes = 0;
  for await (const key of store.list("")) bytes += (await store.read(key)).length;
  return bytes;
}

/** LangGraph's own cost with a saver at hand. */
class NoopSaver extends BaseCheckpointSaver {
  override getTuple() {
    return Promise.resolve(undefined);
  }
  override async *list() {}
  override deleteThread() {
    return Promise.resolve();
  }
  override putWrites() {
    return Promise.resolve();
  }
  override put: BaseCheckpointSaver["put"] = (config, checkpoint) =>
    Promise.resolve({
      configurable: {
        thread_id: config.configurable?.thread_id,
        checkpoint_ns: config.configurable?.checkpoint_ns ?? "",
        checkpoint_id: checkpoint.id,
      },
    });
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
