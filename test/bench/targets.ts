// The targets, in the order in which they are printed.
import type { Bound, Target } from "./measure/targets.js";
import type { SaverName } from "./children/savers.js";
import { TEN_NODES, WHO } from "./parts/http.js";
import { FIRST_EVENT, PICKUP, PICKUP_PARKED } from "./parts/latency.js";
import { LONG_THREAD } from "./parts/long-threads.js";
import { CLAIM_EMPTY, CLAIM_PARKED, DRAIN, ONE_WORKER } from "./parts/queue.js";
import { STREAMS } from "./parts/streams.js";
import { BUSY_WORKERS, WAITING_WORKERS } from "./parts/workers.js";

const atLeast = (value: number): Bound => ({ atLeast: value });
const atMost = (value: number): Bound => ({ atMost: value });

const perdure = (concurrency: number, figure: string) => ({ who: WHO.start, work: TEN_NODES(concurrency), figure });
/** In one process or in two: the machine that the peers have to themselves has two processors. */
const fastest = (figure: string): Target["ours"] => [
  perdure(50, figure),
  { who: WHO.twice, work: TEN_NODES(50), figure },
];
const peer = (who: string, concurrency: number, figure: string) => ({ who, work: TEN_NODES(concurrency), figure });

const RUNS: readonly Target[] = [
  {
    name: "10-node run over HTTP, c=50, one process or two: runs/s against a queue around PostgresSaver",
    ours: fastest("runs/s"),
    peer: peer(WHO.skeleton, 50, "runs/s"),
    must: atLeast(2),
    aim: atLeast(2.5),
  },
  {
    name: "… against PostgresSaver in process, c=50",
    ours: fastest("runs/s"),
    peer: peer(WHO.postgresSaver, 50, "runs/s"),
    must: atLeast(2),
    aim: atLeast(2.5),
  },
  {
    name: "… against the dev server, c=50",
    ours: fastest("runs/s"),
    peer: peer(WHO.devServer, 50, "runs/s"),
    must: atLeast(2.2),
    aim: atLeast(3),
  },
  {
    name: "… p99 against the dev server's, c=50",
    ours: fastest("p99 ms"),
    peer: peer(WHO.devServer, 50, "p99 ms"),
    must: atMost(1 / 5),
    aim: atMost(1 / 8),
  },
  {
    name: "… runs/s against MemorySaver in process with c=10",
    ours: fastest("runs/s"),
    peer: peer(WHO.memorySaver, 10, "runs/s"),
    must: atLeast(0.6),
    aim: atLeast(0.8),
  },
  {
    name: "… runs/s against DBOS started directly with c=10",
    ours: fastest("runs/s"),
    peer: peer(WHO.dbos, 10, "runs/s"),
    must: atLeast(0.9),
    aim: atLeast(1.2),
  },
  {
    name: "node CPU per run, ms, c=50, against MemorySaver in process with c=10",
    ours: fastest("node ms/run"),
    peer: peer(WHO.memorySaver, 10, "node ms/run"),
    must: atMost(1.6),
    aim: atMost(1.2),
  },
  { name: "statements per run, c=50", ours: perdure(50, "statements/run"), must: atMost(4), aim: atMost(2.9) },
  { name: "commits per run, c=50", ours: perdure(50, "commits/run"), must: atMost(2.5), aim: atMost(1.6) },
  { name: "statements per run, c=1", ours: perdure(1, "statements/run"), must: atMost(18), aim: atMost(14) },
  { name: "commits per run, c=1", ours: perdure(1, "commits/run"), must: atMost(15), aim: atMost(12) },
];

const idle = (work: string, figure: string) => ({ who: WHO.start, work, figure });
const LATENCY: readonly Target[] = [
  {
    name: "pickup when idle, p50 ms: POST accepted to first node",
    ours: idle(PICKUP, "p50 ms"),
    must: atMost(6),
    aim: atMost(4),
  },
  { name: "… p99 ms", ours: idle(PICKUP, "p99 ms"), must: atMost(20), aim: atMost(11) },
  { name: "first SSE event when idle, p50 ms", ours: idle(FIRST_EVENT, "p50 ms"), must: atMost(30), aim: atMost(12) },
];

const thread = (saver: SaverName, steps: number, figure: string) => ({
  who: saver,
  work: LONG_THREAD("createAgent", steps),
  figure,
});
const LONG_THREADS: readonly Target[] = [
  {
    name: "createAgent, 200 steps: ms per superstep against PostgresSaver sync",
    ours: thread("perdure", 200, "ms/step"),
    peer: thread("PostgresSaver sync", 200, "ms/step"),
    must: atMost(1 / 5),
    aim: atMost(1 / 8),
  },
  {
    name: "… 500 steps",
    ours: thread("perdure", 500, "ms/step"),
    peer: thread("PostgresSaver sync", 500, "ms/step"),
    must: atMost(1 / 10),
    aim: atMost(1 / 15),
  },
  {
    name: "createAgent, 2,000 steps: last 10 % against first 10 %",
    ours: thread("perdure", 2_000, "last/first 10 %"),
    must: atMost(1.3),
    aim: atMost(1),
  },
  {
    name: "… ms per superstep against a saver that does nothing",
    ours: thread("perdure", 2_000, "ms/step"),
    peer: thread("no-op", 2_000, "ms/step"),
    must: atMost(3),
    aim: atMost(2),
  },
  {
    name: "… the same, 10 steps",
    ours: thread("perdure", 10, "ms/step"),
    peer: thread("no-op", 10, "ms/step"),
    must: atMost(3),
    aim: atMost(2),
  },
  {
    name: "createAgent, 500 steps: bytes in Postgres and store against the conversation's",
    ours: thread("perdure", 500, "stored/conversation"),
    must: atMost(2),
    aim: atMost(1.3),
  },
  {
    name: "Postgres KB per checkpoint after the move, 500 steps",
    ours: thread("perdure", 500, "moved: Postgres KB/checkpoint"),
    must: atMost(1),
    aim: atMost(0.6),
  },
  {
    name: "head load, cold, 500 steps, against PostgresSaver",
    ours: thread("perdure", 500, "head ms"),
    peer: thread("PostgresSaver sync", 500, "head ms"),
    must: atMost(1 / 10),
    aim: atMost(1 / 15),
  },
  {
    name: "… after the move",
    ours: thread("perdure", 500, "moved: head ms"),
    peer: thread("PostgresSaver sync", 500, "head ms"),
    must: atMost(1 / 10),
    aim: atMost(1 / 15),
  },
  {
    name: "history, limit 10, cold, 500 steps, against PostgresSaver",
    ours: thread("perdure", 500, "history of 10 ms"),
    peer: thread("PostgresSaver sync", 500, "history of 10 ms"),
    must: atMost(1 / 50),
    aim: atMost(1 / 100),
  },
  {
    name: "… after the move",
    ours: thread("perdure", 500, "moved: history of 10 ms"),
    peer: thread("PostgresSaver sync", 500, "history of 10 ms"),
    must: atMost(1 / 50),
    aim: atMost(1 / 100),
  },
];

const worker = (work: string, figure: string) => ({ who: ONE_WORKER, work, figure });
const MANY: readonly Target[] = [
  {
    name: "claim and settle of runs that do nothing, one worker, runs/s",
    ours: worker(DRAIN, "runs/s"),
    must: atLeast(3_000),
    aim: atLeast(10_000),
  },
  {
    name: "1,000,000 parked runs: p99 of a claim, ms, against none parked",
    ours: worker(CLAIM_PARKED, "p99 ms"),
    peer: worker(CLAIM_EMPTY, "p99 ms"),
    must: atMost(2),
    aim: atMost(1.2),
  },
  {
    name: "… p99 of a new run's start, from its request",
    ours: idle(PICKUP_PARKED, "from the request p99 ms"),
    peer: idle(PICKUP, "from the request p99 ms"),
    must: atMost(2),
    aim: atMost(1.2),
  },
  {
    name: "open SSE streams: KB of memory each",
    ours: { who: WHO.apart, work: STREAMS, figure: "KB/stream" },
    must: atMost(50),
    aim: atMost(20),
  },
  {
    name: "two worker processes against one, busy nodes (only where cores are free)",
    ours: { who: WHO.apart, work: BUSY_WORKERS(2), figure: "runs/s" },
    peer: { who: WHO.apart, work: BUSY_WORKERS(1), figure: "runs/s" },
    must: atLeast(1.7),
    aim: atLeast(1.9),
  },
  {
    name: "two worker processes against one, a node that waits 200 ms, 10 at a time in each",
    ours: { who: WHO.apart, work: WAITING_WORKERS(2), figure: "runs/s" },
    peer: { who: WHO.apart, work: WAITING_WORKERS(1), figure: "runs/s" },
    must: atLeast(1.9),
    aim: atLeast(1.95),
  },
];

export const TARGETS: readonly Target[] = [...RUNS, ...LATENCY, ...LONG_THREADS, ...MANY];
