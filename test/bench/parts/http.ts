// The 10-node run: over HTTP against perdure, the dev server and a queue of one's own around PostgresSaver, and in process
// with LangGraph's savers and with DBOS. One, ten and fifty runs at a time.
import { until } from "../../helpers/wait.js";
import { startChild } from "../setup/children.js";
import { type Client, createClient } from "../setup/client.js";
import { ask } from "../setup/postgres.js";
import {
  type Installation,
  type PerdureOptions,
  startDevServer,
  startPerdure,
  startSkeleton,
} from "../setup/servers.js";
import { metered, PROBE, type Statement } from "../measure/meter.js";
import { quantile, type Timed, timedPool } from "../measure/numbers.js";
import { costs, type Run } from "./part.js";

const PART = "10-node run";
export const TEN_NODES = (concurrency: number): string => `c=${concurrency}`;

export const WHO = {
  start: "perdure start",
  twice: "perdure start, two of them",
  apart: "perdure api + worker",
  devServer: "dev server, HTTP",
  skeleton: "queue + PostgresSaver, HTTP",
  postgresSaver: "PostgresSaver, in process",
  memorySaver: "MemorySaver, in process",
  dbos: "DBOS, started directly",
} as const;

type Load = (n: number, concurrency: number) => Promise<Timed>;
type Loaded = Readonly<{
  load: Load;
  database: string | null;
  pids: readonly number[];
  /** Waited for before the reading ends, but not timed. */
  settled?: () => Promise<unknown>;
}>;

/**
 * Runs by concurrency: as many as make a few seconds of it. Before them, as many as it takes until what runs is compiled: half as
 * many make a run of ours cost a third more, and one of a peer's, too.
 */
type Amounts = Readonly<Record<number, number>> & Readonly<{ warmUp: number }>;

export async function measureRuns(run: Run): Promise<void> {
  const { quick, peers } = run;
  const many: Amounts = quick ? { warmUp: 400, 1: 30, 10: 80, 50: 250 } : { warmUp: 800, 1: 120, 10: 300, 50: 600 };
  const few: Amounts = quick ? { warmUp: 100, 1: 5, 10: 30, 50: 100 } : { warmUp: 300, 1: 15, 10: 100, 50: 300 };
  await measureOne(run, many);
  if (peers) await measureServer(run, WHO.skeleton, () => openSkeleton(run), many);
  if (peers) await measureServer(run, WHO.devServer, openDevServer, few);
  await measureTwo(run, many);
  await measureMoved(run, many);
  if (!peers) return;
  await measureServer(run, WHO.postgresSaver, () => openChild(run, "in-process", "bench_postgres_saver"), many);
  await measureServer(run, WHO.memorySaver, () => openChild(run, "in-process", null), many);
  await measureServer(run, WHO.dbos, () => openChild(run, "dbos", "bench_dbos"), many);
}

/** No move falls into it: moves would be counted where they happen, and that is by chance. They have a row of their own. */
const NOT_YET_MS = 86_400_000;

async function measureOne(run: Run, amounts: Amounts): Promise<void> {
  await withPerdure(run, { processes: "start", moveAfterMs: NOT_YET_MS }, async (perdure, loaded) => {
    await measure(run, WHO.start, loaded, amounts);
    const onThreads = { ...loaded, load: loaderOf(perdure.urls).onThreads };
    await measureFifty(run, WHO.start, `${TEN_NODES(50)}, on threads`, onThreads, amounts);
  });
}

/** As behind a load balancer that asks one after the other. */
async function measureTwo(run: Run, amounts: Amounts): Promise<void> {
  await withPerdure(run, { processes: "twice", moveAfterMs: NOT_YET_MS }, async (_, loaded) => {
    await loaded.load(2 * amounts.warmUp, 50);
    await measureFifty(run, WHO.twice, TEN_NODES(50), loaded, amounts);
  });
}

function measureFifty(run: Run, who: string, work: string, loaded: Loaded, amounts: Amounts): Promise<void> {
  return measureLoad(run, who, work, loaded, { n: amounts[50] ?? 0, concurrency: 50 });
}

/** All that a run costs: its content is moved while others run, and the reading waits for the last move. */
async function measureMoved(run: Run, amounts: Amounts): Promise<void> {
  await withPerdure(run, { processes: "start", moveAfterMs: 0 }, async ({ databaseUrl }, loaded) => {
    await loaded.load(amounts.warmUp, 50);
    const settled = () =>
      until("everything to be moved", () => isMoved(databaseUrl), { timeoutMs: 300_000, everyMs: 200 });
    await settled();
    await measureFifty(run, WHO.start, `${TEN_NODES(50)}, and moved`, { ...loaded, settled }, amounts);
  });
}

async function isMoved(url: string): Promise<boolean> {
  const text = `select 1 as ${PROBE} from perdure.timers where kind = 'move' and status = 'due' limit 1`;
  return (await ask(url, text)).length === 0;
}

async function withPerdure(
  run: Run,
  options: PerdureOptions,
  work: (perdure: Installation, loaded: Loaded) => Promise<void>,
): Promise<void> {
  const perdure = await startPerdure(run.server, options);
  try {
    const { database, pids } = perdure;
    await work(perdure, { load: loaderOf(perdure.urls).stateless, database, pids });
  } finally {
    await perdure.stop();
  }
}

async function measureServer(
  run: Run,
  who: string,
  open: () => Promise<Loaded & Readonly<{ stop(): Promise<void> }>>,
  amounts: Amounts,
): Promise<void> {
  const loaded = await open();
  try {
    await measure(run, who, loaded, amounts);
  } finally {
    await loaded.stop();
  }
}

async function measure(run: Run, who: string, loaded: Loaded, amounts: Amounts): Promise<void> {
  await loaded.load(amounts.warmUp, 50);
  for (const concurrency of [1, 10, 50]) {
    await measureLoad(run, who, TEN_NODES(concurrency), loaded, { n: amounts[concurrency] ?? 0, concurrency });
  }
}

async function measureLoad(
  { server, report, round }: Run,
  who: string,
  work: string,
  loaded: Loaded,
  { n, concurrency }: Readonly<{ n: number; concurrency: number }>,
): Promise<void> {
  const [{ seconds, latenciesMs }, reading] = await metered({ server, ...loaded }, async () => {
    const timed = await loaded.load(n, concurrency);
    await loaded.settled?.();
    return timed;
  });
  report.add({
    ...{ round, part: PART, who, work },
    figures: {
      "runs/s": n / seconds,
      "p50 ms": quantile(latenciesMs, 0.5),
      "p99 ms": quantile(latenciesMs, 0.99),
      ...costs(reading, n, "run"),
    },
  });
  if (who.startsWith("perdure")) report.note(`${who}, ${work}`, statementsPerRun(reading.byCalls, n));
}

/** The statements that are sent most, each by its calls and milliseconds per run. */
function statementsPerRun(byCalls: readonly Statement[], runs: number): string {
  const lines = byCalls.slice(0, 40).map(({ query, calls, ms }) => {
    const text = query.replaceAll(/\s+/g, " ").trim();
    const perRun = `${(calls / runs).toFixed(2).padStart(7)} calls ${(ms / runs).toFixed(3).padStart(7)} ms`;
    return `${perRun}  ${text.slice(0, 160)}`;
  });
  return lines.join("\n");
}

/** Asks servers of the Agent Server API for runs, one after the other. */
function loaderOf(urls: readonly string[]): Readonly<{ stateless: Load; onThreads: Load }> {
  const clients = urls.map(createClient);
  let asked = 0;
  const next = (): Client => clients[asked++ % clients.length] as Client;
  const onThread = async (): Promise<void> => {
    const client = next();
    const { thread_id: id } = await client.post<{ thread_id: string }>("/threads", {});
    await client.ten(`/threads/${id}/runs/wait`);
  };
  return {
    stateless: (n, concurrency) => timedPool(n, concurrency, () => next().ten()),
    onThreads: (n, concurrency) => timedPool(n, concurrency, onThread),
  };
}

async function openDevServer() {
  const { url, pid, stop } = await startDevServer();
  return { load: loaderOf([url]).stateless, database: null, pids: [pid], stop };
}

async function openSkeleton({ server }: Run) {
  const database = "bench_skeleton";
  const { url, pid, stop } = await startSkeleton(await server.createDatabase(database));
  return {
    ...{ load: loaderOf([url]).stateless, database, pids: [pid] },
    stop: () => stop().then(() => server.dropDatabase(database)),
  };
}

async function openChild({ server }: Run, script: "in-process" | "dbos", database: string | null) {
  const child = startChild(script);
  await child.call("open", { url: database === null ? null : await server.createDatabase(database) });
  return {
    ...{ database, pids: [child.pid] },
    load: (n: number, concurrency: number) => child.call<Timed>("load", { n, concurrency }),
    async stop() {
      await child.stop();
      if (database !== null) await server.dropDatabase(database);
    },
  };
}
