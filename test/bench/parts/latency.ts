// How soon something happens when nobody else asks: the first node of an accepted run, the first event of a stream.
import { startChild } from "../setup/children.js";
import { createClient, type Client } from "../setup/client.js";
import { startDevServer, startPerdure } from "../setup/servers.js";
import { metered } from "../measure/meter.js";
import { nowMs, quantile, randomPause } from "../measure/numbers.js";
import type { Run } from "./part.js";
import { WHO } from "./http.js";

const PART = "latency when idle";
export const PICKUP = "POST accepted to first node";
export const PICKUP_PARKED = "POST accepted to first node, 1,000,000 parked";
export const FIRST_EVENT = "runs/stream, 10 nodes";
/** At least so long between two requests, and at most twice. */
const PAUSE_MS = 100;
const PARKED = 1_000_000;

type Pids = readonly number[];

export async function measureLatency(run: Run): Promise<void> {
  const samples = run.quick ? 40 : 100;
  for (const processes of ["start", "apart"] as const) {
    if (processes === "apart" && (run.quick || run.round > 1)) continue;
    const perdure = await startPerdure(run.server, { processes });
    try {
      const client = createClient(perdure.url);
      const measured = { samples, pids: perdure.pids, warmUp: 300 };
      await measure(run, WHO[processes], client, measured);
      // Filling takes a minute or two, and what it shows does not vary.
      if (run.quick || run.round > 1 || processes === "apart") continue;
      await park(perdure.databaseUrl);
      await measurePickup(run, WHO[processes], client, { ...measured, work: PICKUP_PARKED });
    } finally {
      await perdure.stop();
    }
  }
  if (!run.peers) return;
  const dev = await startDevServer();
  try {
    await measure(run, WHO.devServer, createClient(dev.url), {
      samples: Math.min(samples, 30),
      pids: [dev.pid],
      warmUp: 20,
    });
  } finally {
    await dev.stop();
  }
}

type Measured = Readonly<{ samples: number; pids: Pids; warmUp: number }>;

async function measure(run: Run, who: string, client: Client, measured: Measured): Promise<void> {
  const { server, report, round } = run;
  const { samples, pids, warmUp } = measured;
  // As a server that has run for a while: its code is compiled.
  for (let n = 0; n < warmUp; n += 1) await client.ten();
  await measurePickup(run, who, client, { ...measured, work: PICKUP });
  const ten = { assistant_id: "ten", input: { n: 0 }, stream_mode: ["values"] };
  const [streams, reading] = await metered({ server, database: null, pids }, () =>
    repeat(samples, () => client.stream("/runs/stream", ten)),
  );
  const firsts = streams.map(({ firstMs }) => firstMs);
  report.add({
    ...{ round, part: PART, who, work: FIRST_EVENT },
    figures: {
      "p50 ms": quantile(firsts, 0.5),
      "p99 ms": quantile(firsts, 0.99),
      "end of stream p50 ms": quantile(
        streams.map(({ endMs }) => endMs),
        0.5,
      ),
      "foreign cores": reading.foreignCores,
    },
  });
}

async function measurePickup(
  { server, report, round }: Run,
  who: string,
  client: Client,
  { samples, pids, work }: Measured & Readonly<{ work: string }>,
): Promise<void> {
  const [pickups, reading] = await metered({ server, database: null, pids }, () =>
    repeat(samples, () => pickup(client)),
  );
  const accepted = pickups.map(({ acceptedMs }) => acceptedMs);
  const sent = pickups.map(({ sentMs }) => sentMs);
  report.add({
    ...{ round, part: PART, who, work },
    figures: {
      "p50 ms": quantile(accepted, 0.5),
      "p99 ms": quantile(accepted, 0.99),
      "from the request p50 ms": quantile(sent, 0.5),
      "from the request p99 ms": quantile(sent, 0.99),
      "foreign cores": reading.foreignCores,
    },
  });
}

/** Beside what the server did so far. */
async function park(url: string): Promise<void> {
  const child = startChild("queue");
  try {
    await child.call("open", { url });
    await child.call("park", { runs: PARKED });
  } finally {
    await child.stop();
  }
}

async function repeat<T>(n: number, work: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let i = 0; i < n; i += 1) {
    results.push(await work());
    await randomPause(PAUSE_MS);
  }
  return results;
}

/** From the answer to the POST, and from its sending, to when the first node was entered. Zero when the node was earlier. */
async function pickup(client: Client): Promise<Readonly<{ acceptedMs: number; sentMs: number }>> {
  const { thread_id: thread } = await client.post<{ thread_id: string }>("/threads", {});
  await randomPause(PAUSE_MS / 2);
  const sentAtMs = nowMs();
  const body = { assistant_id: "entered", input: { n: 0 } };
  const { run_id: id } = await client.post<{ run_id: string }>(`/threads/${thread}/runs`, body);
  const acceptedAtMs = nowMs();
  const { enteredMs } = await client.get<{ enteredMs: number }>(`/threads/${thread}/runs/${id}/join`);
  return { acceptedMs: Math.max(0, enteredMs - acceptedAtMs), sentMs: enteredMs - sentAtMs };
}
