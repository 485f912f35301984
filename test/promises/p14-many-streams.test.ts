// Many who watch, and some who don't take what they are sent: the memory of the API process stays where it is.
import { readFileSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createProject } from "../cli/project.js";
import { createTestDatabase } from "../helpers/database.js";
import { startProcess } from "../helpers/processes.js";
import { size } from "../helpers/soak.js";
import { sseEvents } from "../helpers/sse.js";

const STREAMS = size(200, 1_000);
const WATCHERS_OF_ONE = 50;
const ROUNDS = 6;
/** Without a bound the process leaves what it needs no more for later: it would grow to some hundred megabytes and shrink again. */
const OLD_SPACE_MB = size(80, 160);
const EVENTS = 100;
/** What is sent to each slow reader: more than any buffer on the way takes. */
const BIG = { to: 120, chars: 500_000, ms: 1 };
const SLOW = 20;
const STUCK_MS = 30_000;
const MB = 1e6;

const talking = `
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, getWriter, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ to: Annotation(), chars: Annotation(), ms: Annotation() });
export const graph = new StateGraph(State)
  .addNode("talk", async ({ to, chars, ms }) => {
    for (let n = 1; n <= to; n += 1) {
      getWriter()?.({ n, text: "x".repeat(chars) });
      await sleep(ms);
    }
    return {};
  })
  .addEdge(START, "talk");
`;

type Site = Readonly<{ url: string; rss(): number; run(input: object): Promise<string> }>;

async function withApi(work: (site: Site) => Promise<void>, nodeOptions = ""): Promise<void> {
  const database = await createTestDatabase();
  const cwd = await createProject({ "graph.ts": talking });
  const env = { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies`, PERDURE_POLL_MS: "100" };
  const api = startProcess(["api", "--port", "0"], { cwd, env: { ...env, NODE_OPTIONS: nodeOptions } });
  const worker = startProcess(["worker"], { cwd, env: { ...env, PERDURE_CONCURRENCY: "50" } });
  try {
    const [, url = ""] = await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
    await Promise.all([api.waitFor("perdure api is ready"), worker.waitFor("perdure worker is ready")]);
    await work({
      url,
      rss: () => residentBytes(api.pid),
      async run(input) {
        const headers = { "content-type": "application/json" };
        const body = { assistant_id: "agent", input, stream_mode: ["custom"] };
        const response = await fetch(`${url}/runs`, { method: "POST", headers, body: JSON.stringify(body) });
        return ((await response.json()) as { run_id: string }).run_id;
      },
    });
  } finally {
    await Promise.all([api.kill(), worker.kill()]);
    await database.close();
  }
}

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1_024;
}

const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

function open(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request(url, { agent, headers: { "last-event-id": "-1" } }, resolve)
      .on("error", reject)
      .end();
  });
}

const MARK = "event: custom";

/** Reads to the end, and says how many events came. */
async function countEvents(url: string): Promise<number> {
  const response = await open(url);
  response.setEncoding("utf8");
  let events = 0;
  let left = "";
  for await (const text of response) {
    const all = left + (text as string);
    events += all.split(MARK).length - 1;
    left = all.slice(1 - MARK.length);
  }
  return events;
}

const shown = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;

it(`${STREAMS} streams at once, again and again, leave the memory of one API process where it is`, async () => {
  await withApi(async ({ url, rss, run }) => {
    const before = rss();
    const [peaks, ends]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      const input = { to: EVENTS, chars: 200, ms: 20 };
      const runs = await Promise.all(Array.from({ length: STREAMS / WATCHERS_OF_ONE }, () => run(input)));
      const counts = Promise.all(
        Array.from({ length: STREAMS }, (_, n) => countEvents(`${url}/runs/${runs[n % runs.length] ?? ""}/stream`)),
      );
      let peak = 0;
      const watch = setInterval(() => (peak = Math.max(peak, rss())), 100);
      const seen = await counts;
      clearInterval(watch);
      peaks.push(peak);
      ends.push(rss());
      expect(seen.filter((n) => n !== EVENTS)).toEqual([]);
    }
    console.log(
      `${STREAMS} streams, ${EVENTS} events each, ${ROUNDS} rounds: before ${shown(before)}, ` +
        `peaks ${peaks.map(shown).join(", ")}, after each ${ends.map(shown).join(", ")}`,
    );
    for (const peak of peaks.slice(1)) expect(peak).toBeLessThan((peaks[0] ?? 0) + 20 * MB);
  }, `--max-old-space-size=${OLD_SPACE_MB}`);
});

it(`${SLOW} who take nothing hold a bounded amount, are cut after ${STUCK_MS / 1_000} s, and have all of it when they come back`, async () => {
  await withApi(async ({ url, rss, run }) => {
    const runId = await run(BIG);
    const path = `${url}/runs/${runId}/stream`;
    // As somebody who reads has it: also a process that has sent as much before.
    expect(await countEvents(path)).toBe(BIG.to);
    const before = rss();
    const slow = await Promise.all(Array.from({ length: SLOW }, () => open(path)));
    await sleep(3_000);
    const held = rss();
    await sleep(STUCK_MS + 2_000);
    const after = rss();
    console.log(
      `${SLOW} who would get ${shown(BIG.to * BIG.chars)} each: before ${shown(before)}, held ${shown(held)}, cut ${shown(after)}`,
    );
    expect(held - before).toBeLessThan(SLOW * 6 * MB);
    const [first] = slow;
    let text = "";
    const broken = (async () => {
      first?.setEncoding("utf8");
      for await (const piece of first ?? []) text += piece as string;
    })();
    await expect(broken).rejects.toThrow();
    const ids = [...text.matchAll(/^id: (\d+)\n\n/gm)].map(([, id]) => id ?? "");
    expect(ids.length).toBeLessThan(BIG.to);
    const rest: string[] = [];
    for await (const { id } of sseEvents(path, { headers: { "last-event-id": ids.at(-1) ?? "-1" } })) rest.push(id);
    expect([...ids, ...rest].map(Number)).toEqual(Array.from({ length: BIG.to + 1 }, (_, n) => n));
    for (const response of slow) response.destroy();
  });
});
