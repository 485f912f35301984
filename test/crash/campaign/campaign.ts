// The campaign: an installation under load, broken again and again, and judged when it has come to rest.
import { setTimeout as sleep } from "node:timers/promises";
import { seeded } from "../../helpers/random.js";
import { until } from "../../helpers/wait.js";
import { type Chaos, startChaos } from "./chaos.js";
import { startClients } from "./clients.js";
import { judge, unfinished, type Verdict } from "./oracle.js";
import { startPeople } from "./people.js";
import { startService } from "./service.js";
import { openSite, type Site } from "./site.js";

export type CampaignOptions = Readonly<{
  seed: number;
  /** How long it is broken; the end, when everything comes to rest, is not in it. */
  seconds: number;
  clients?: number;
  workers?: number;
  /** Between two breaks, on average. */
  everyMs?: number;
  /** How long a client thinks between two runs, on average. */
  thinkMs?: number;
  progress?: (line: string) => void;
}>;

export type Report = Readonly<{ verdict: Verdict; broken: Chaos["counts"]; cutOff: number; restSeconds: number }>;

type Chance = () => number;

/** How long everything may take to come to rest afterwards. */
const REST_MS = 180_000;

export async function campaign(options: CampaignOptions): Promise<Report> {
  const {
    seed,
    seconds,
    clients = 6,
    workers = 3,
    everyMs = 2_100,
    thinkMs = 200,
    progress = () => undefined,
  } = options;
  // Chances of their own, so that one doesn't shift the others.
  const chances = [1, 2, 3, 4].map((n) => seeded(seed * 10 + n)) as [Chance, Chance, Chance, Chance];
  const service = await startService(chances[0]);
  const site = await openSite({ CAMPAIGN_SERVICE: service.url }, { apis: 2, workers });
  let chaos: Chaos | undefined;
  try {
    progress(site.describe());
    await until("an API to be ready", async () => (await fetch(`${site.urls[0]}/ok`)).ok, { timeoutMs: 60_000 });
    const asking = startClients(site, { random: chances[1], clients, thinkMs });
    const people = startPeople(site, service, { random: chances[3], chaos: () => chaos });
    chaos = startChaos(site, chances[2], everyMs);
    for (const endMs = performance.now() + seconds * 1_000; performance.now() < endMs; ) {
      await sleep(Math.min(10_000, Math.max(0, endMs - performance.now())));
      progress(`${asking.accepted.length} runs, ${people.counts.approvals} approvals, ${chaos.counts.kills} kills`);
    }
    await chaos.stop();
    await asking.stop();
    const restedMs = performance.now();
    await comeToRest(site, progress);
    await people.leave();
    const restSeconds = (performance.now() - restedMs) / 1_000;
    return {
      verdict: await judge(site.db, site.urls[0] as string, { clients: asking, people, service }),
      broken: chaos.counts,
      cutOff: service.cutOff(),
      restSeconds,
    };
  } finally {
    await chaos?.stop();
    await site.close();
    await service.close();
  }
}

/** Until nothing is left to do, or time is over. */
async function comeToRest(site: Site, progress: (line: string) => void): Promise<void> {
  let toldMs = performance.now();
  const isAtRest = async (): Promise<boolean> => {
    const left = await unfinished(site.db);
    if (performance.now() - toldMs > 10_000) {
      toldMs = performance.now();
      progress(`${left.length} left to do, like ${left.slice(0, 3).join("; ")}`);
    }
    return left.length === 0;
  };
  const options = { timeoutMs: REST_MS, everyMs: 250 };
  await until("everything to come to rest", isAtRest, options).catch((error: unknown) => progress(String(error)));
}
