// A client that drops again and again, and comes back through another API process, gets every event once and in order.
import { randomUUID } from "node:crypto";
import { ProtocolSseTransportAdapter, ProtocolWebSocketTransportAdapter, ThreadStream } from "@langchain/langgraph-sdk";
import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createTestDatabase } from "../helpers/database.js";
import { quietPort } from "../helpers/ports.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { seeded } from "../helpers/random.js";
import { size } from "../helpers/soak.js";
import { sseEvents, type SseEvent } from "../helpers/sse.js";
import { createProject } from "../cli/project.js";

const EVENTS = 500;
const DROPS = 10;
/** Of the API process of one client. */
const KILLS = size(3, 10);
const counting = `
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, getWriter, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ to: Annotation(), ms: Annotation(), done: Annotation() });
export const graph = new StateGraph(State)
  .addNode("count", async ({ to, ms = 20 }) => {
    for (let n = 1; n <= to; n += 1) {
      getWriter()?.(n);
      if (n % 5 === 0) await sleep(ms);
    }
    return { done: to };
  })
  .addEdge(START, "count");
`;
const ONE_TO_ALL = Array.from({ length: EVENTS }, (_, n) => n + 1);

type Site = Readonly<{
  /** Where the API process of this number is: started when it isn't there. */
  api(n: number): Promise<string>;
  kill(n: number): Promise<void>;
  post(url: string, body: unknown): Promise<Record<string, string>>;
}>;

/** API processes and a worker, each by itself. */
async function withProcesses(work: (site: Site) => Promise<void>): Promise<void> {
  const database = await createTestDatabase();
  const cwd = await createProject({ "graph.ts": counting });
  const env = { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies`, PERDURE_POLL_MS: "100" };
  const apis = new Map<number, Readonly<{ process: TestProcess; url: string }>>();
  const ports = new Map<number, number>();
  const worker = startProcess(["worker"], { cwd, env });
  try {
    await worker.waitFor("perdure worker is ready");
    await work({
      async api(n) {
        const running = apis.get(n);
        if (running !== undefined) return running.url;
        const port = ports.get(n) ?? (await quietPort());
        ports.set(n, port);
        const process = startProcess(["api", "--port", String(port)], { cwd, env });
        await process.waitFor("perdure api is ready");
        const url = `http://127.0.0.1:${port}`;
        apis.set(n, { process, url });
        return url;
      },
      async kill(n) {
        await apis.get(n)?.process.kill();
        apis.delete(n);
      },
      async post(url, body) {
        const headers = { "content-type": "application/json" };
        const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
        if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
        return (await response.json()) as Record<string, string>;
      },
    });
  } finally {
    await Promise.all([worker.kill(), ...[...apis.values()].map(({ process }) => process.kill())]);
    await database.close();
  }
}

/** Where the client drops: after so many events. */
function drops(): number[] {
  const seed = Date.now() % 2 ** 31;
  const random = seeded(seed);
  const after = Array.from({ length: DROPS }, () => 1 + Math.floor(random() * (EVENTS - 1))).sort((a, b) => a - b);
  console.log(`drops after ${after.join(", ")} (seed ${seed})`);
  return after;
}

type Visit = Readonly<{ seen: SseEvent[]; ended: boolean }>;

/** Reads until `enough`, then leaves without a word, or is left by a process that is killed. */
async function visit(
  url: string,
  init: RequestInit,
  enough: (event: SseEvent, n: number) => boolean,
  leave: () => Promise<void>,
): Promise<Visit> {
  const gone = new AbortController();
  const seen: SseEvent[] = [];
  try {
    for await (const event of sseEvents(url, { ...init, signal: gone.signal })) {
      seen.push(event);
      if (!enough(event, seen.length)) continue;
      await leave();
      gone.abort();
      return { seen, ended: false };
    }
    return { seen, ended: true };
  } catch {
    return { seen, ended: false };
  }
}

describe.each(["/threads/:thread/runs/:run/stream", "/runs/:run/stream"])("over %s", (route) => {
  it(`1..${EVENTS} come once each and in order through ${DROPS} drops, two of them by a killed API process`, async () => {
    await withProcesses(async ({ api, kill, post }) => {
      const { thread_id: thread = "" } = await post(`${await api(0)}/threads`, {});
      const body = { assistant_id: "agent", input: { to: EVENTS }, stream_mode: ["custom"] };
      const { run_id: run = "" } = await post(`${await api(0)}/threads/${thread}/runs`, body);
      const path = route.replace(":thread", thread).replace(":run", run);
      const after = drops();
      const events: SseEvent[] = [];
      for (let n = 0, ended = false; !ended; n += 1) {
        const url = await api(n % 3);
        const last = events.at(-1)?.id ?? "-1";
        const drop = after[n];
        const enough = ({ data }: SseEvent): boolean => drop !== undefined && Number(data) >= drop;
        const leave = async (): Promise<void> => (n === 3 || n === 7 ? kill(n % 3) : undefined);
        const visited = await visit(`${url}${path}`, { headers: { "last-event-id": last } }, enough, leave);
        events.push(...visited.seen);
        ended = visited.ended;
        expect(n).toBeLessThan(DROPS + 5);
      }
      expect(events.filter(({ event }) => event === "custom").map(({ data }) => data)).toEqual(ONE_TO_ALL);
      expect(events[0]).toMatchObject({ event: "metadata", data: { run_id: run, attempt: 1 } });
      const ids = events.map(({ id }) => Number(id));
      expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    });
  });
});

it("a client whose going cancels its run drops, and comes back through another API process: the run goes on until it stays away", async () => {
  await withProcesses(async ({ api, post }) => {
    const { thread_id: thread = "" } = await post(`${await api(0)}/threads`, {});
    const other = await api(1);
    const input = { to: EVENTS, ms: 150 };
    const asked = { assistant_id: "agent", input, stream_mode: ["custom"], on_disconnect: "cancel" };
    const headers = { "content-type": "application/json" };
    const begin = { method: "POST", headers, body: JSON.stringify(asked) };
    const leave = async (): Promise<void> => undefined;
    const first = await visit(`${await api(0)}/threads/${thread}/runs/stream`, begin, (_, n) => n === 10, leave);
    const { run_id: run } = first.seen[0]?.data as { run_id: string };
    const path = `/threads/${thread}/runs/${run}`;
    const from = new URLSearchParams({ last_event_id: first.seen.at(-1)?.id ?? "", cancel_on_disconnect: "true" });
    // Long after it would have been cancelled.
    const far = (event: SseEvent): boolean => Number(event.data) >= 300;
    const second = await visit(`${other}${path}/stream?${from}`, {}, far, leave);
    expect([...first.seen.slice(1), ...second.seen].map(({ data }) => data)).toEqual(ONE_TO_ALL.slice(0, 300));
    const rest = await visit(`${other}${path}/stream?last_event_id=${second.seen.at(-1)?.id}`, {}, () => false, leave);
    expect(rest.seen.at(-1)).toMatchObject({ event: "metadata", data: { cancel_reason: "its client disconnected" } });
  });
});

type Event = Readonly<{
  event_id: string;
  method: string;
  params: { namespace: string[]; data: { payload: number; event: string } };
}>;

describe("over the thread protocol", () => {
  it(`1..${EVENTS} come once each and in order through ${DROPS} drops: each visit begins with the run, and tells the same`, async () => {
    await withProcesses(async ({ api, kill, post }) => {
      const thread = randomUUID();
      const params = { assistant_id: "agent", input: { to: EVENTS } };
      await post(`${await api(0)}/threads/${thread}/commands`, { id: 1, method: "run.start", params });
      const after = drops();
      const told = new Map<string, string>();
      const numbers: number[] = [];
      const isEnd = ({ method, params: { namespace, data } }: Event): boolean =>
        method === "lifecycle" && namespace.length === 0 && data.event === "completed";
      for (let n = 0, ended = false; !ended; n += 1) {
        const url = await api(n % 3);
        const drop = after[n];
        const enough = ({ data }: SseEvent): boolean => {
          const event = data as Event;
          return isEnd(event) || (drop !== undefined && event.params.data.payload >= drop);
        };
        const leave = async (): Promise<void> => (n === 3 || n === 7 ? kill(n % 3) : undefined);
        const body = JSON.stringify({ channels: ["custom", "lifecycle"] });
        const init = { method: "POST", headers: { "content-type": "application/json" }, body };
        const { seen } = await visit(`${url}/threads/${thread}/stream/events`, init, enough, leave);
        const events = seen.map(({ data }) => data as Event);
        const own = events.filter(({ method }) => method === "custom").map(({ params: { data } }) => data.payload);
        expect(own).toEqual(ONE_TO_ALL.slice(0, own.length));
        for (const event of events) {
          const text = JSON.stringify(event);
          expect(told.get(event.event_id) ?? text).toBe(text);
          if (event.method === "custom" && !told.has(event.event_id)) numbers.push(event.params.data.payload);
          told.set(event.event_id, text);
        }
        ended = events.some(isEnd);
      }
      expect(numbers).toEqual(ONE_TO_ALL);
    });
  });

  it.each(["SSE", "WebSocket"] as const)(
    `a stock client over %s has all of a run whose API process is killed ${KILLS} times, and its output`,
    async (transport) => {
      await withProcesses(async ({ api, kill }) => {
        const apiUrl = await api(0);
        const long = (EVENTS * 4 * KILLS) / 10;
        const reconnectDelayMs = (attempt: number): number => 250 * attempt;
        const options = { apiUrl, threadId: randomUUID(), reconnectDelayMs, maxReconnectAttempts: 30 };
        const webSocketFactory = (url: string) => new WebSocket(url) as unknown as globalThis.WebSocket;
        const stream = new ThreadStream(
          transport === "SSE"
            ? new ProtocolSseTransportAdapter(options)
            : new ProtocolWebSocketTransportAdapter({ ...options, webSocketFactory }),
          { assistantId: "agent" },
        );
        try {
          const raw = await stream.subscribe({ channels: ["custom"] });
          const numbers: number[] = [];
          const reading = (async () => {
            for await (const { params } of raw) numbers.push((params.data as { payload: number }).payload);
          })();
          await stream.run.start({ input: { to: long, ms: 100 } });
          for (let n = 1; n <= KILLS; n += 1) {
            const before = numbers.length;
            await expect.poll(() => numbers.length, { timeout: 60_000 }).toBeGreaterThan(Math.min(before, long - 1));
            await kill(0);
            await api(0);
          }
          expect(await stream.output).toMatchObject({ done: long });
          await reading;
          expect(numbers).toEqual(Array.from({ length: long }, (_, n) => n + 1));
        } finally {
          await stream.close();
        }
      });
    },
  );
});
