// Many clients that watch: what one open stream costs the API process in memory.
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../setup/client.js";
import { startPerdure } from "../setup/servers.js";
import { residentBytes } from "../measure/cpu.js";
import { metered } from "../measure/meter.js";
import { pool } from "../measure/numbers.js";
import { WHO } from "./http.js";
import type { Run } from "./part.js";

export const STREAMS = "open SSE streams";
/** What is opened and closed before, so that code, buffers and connections are there. */
const WARM_UP = 300;
const SETTLE_MS = 4_000;

export async function measureStreams(run: Run): Promise<void> {
  const streams = run.quick ? 400 : 1_000;
  const perdure = await startPerdure(run.server, { processes: "apart" });
  try {
    const [api = 0] = perdure.pids;
    const paths = await runsThatWait(perdure.url, streams);
    const [figures, reading] = await metered({ server: run.server, database: null, pids: perdure.pids }, async () => {
      for (let n = 0; n < 3; n += 1) (await openAll(perdure.url, paths.slice(0, WARM_UP))).close();
      await sleep(SETTLE_MS);
      const before = residentBytes(api);
      const open = await openAll(perdure.url, paths);
      await sleep(SETTLE_MS);
      const after = residentBytes(api);
      open.close();
      return {
        streams,
        "KB/stream": before === null || after === null ? null : (after - before) / 1_024 / streams,
        "API MB": after === null ? null : after / 1e6,
      };
    });
    run.report.add({
      ...{ round: run.round, part: "memory", who: WHO.apart, work: STREAMS },
      figures: { ...figures, "foreign cores": reading.foreignCores },
    });
  } finally {
    await perdure.stop();
  }
}

/** Runs that are not due before an hour: their streams stay open and silent. */
async function runsThatWait(url: string, n: number): Promise<string[]> {
  const client = createClient(url);
  const paths: string[] = [];
  await pool(n, 10, async () => {
    const { thread_id: thread } = await client.post<{ thread_id: string }>("/threads", {});
    const body = { assistant_id: "ten", input: { n: 0 }, after_seconds: 3_600 };
    const { run_id: id } = await client.post<{ run_id: string }>(`/threads/${thread}/runs`, body);
    paths.push(`/threads/${thread}/runs/${id}/stream`);
  });
  return paths;
}

async function openAll(url: string, paths: readonly string[]): Promise<Readonly<{ close(): void }>> {
  const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });
  const responses: IncomingMessage[] = [];
  await pool(paths.length, 20, async (i) => void responses.push(await openOne(url + (paths[i] ?? ""), agent)));
  return {
    close() {
      for (const response of responses) response.destroy();
      agent.destroy();
    },
  };
}

function openOne(url: string, agent: Agent): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent }, (response) => {
      response.on("error", () => undefined); // We cut it ourselves.
      response.resume();
      if (response.statusCode === 200) resolve(response);
      else reject(new Error(`${url} answered ${response.statusCode}`));
    });
    asked.on("error", reject);
    asked.end();
  });
}
