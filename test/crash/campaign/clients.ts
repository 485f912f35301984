// Who asks for runs: a client asks again until it gets an answer, and names what it asks for, so that asking again makes no second one.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { PRIORITY_NAMES, type PriorityName } from "../../../src/core/run.js";
import { get, persistently, post, type Refusal } from "./requests.js";
import type { Site } from "./site.js";

/** What acts outside, and how many of a hundred things a client begins; the rest is short work and conversations. */
const SHARES = { work: 35, agent: 24, careful: 7, bold: 7, approver: 13, chat: 9, burst: 5 } as const;
type Graph = keyof typeof SHARES;

export type Accepted = Readonly<{
  graph: Exclude<Graph, "chat" | "burst">;
  threadId: string;
  runId: string;
  /** Of its conversation, and so of its intents; also the thread's id. */
  name: string;
  priority: PriorityName | null;
}>;

export const STRATEGIES = ["enqueue", "reject", "interrupt", "rollback"] as const;
export type Turn = Readonly<{
  said: string;
  strategy: (typeof STRATEGIES)[number];
  /** Null: it was refused; undefined: the client never heard of it. */
  runId: string | null | undefined;
  /** How the client saw its run end, if it waited for that before it went on. */
  ended: string | undefined;
}>;
export type Conversation = Readonly<{ graph: "chat" | "burst"; threadId: string; turns: readonly Turn[] }>;

export type Clients = Readonly<{
  /** Runs whose id a client has. */
  accepted: readonly Accepted[];
  conversations: readonly Conversation[];
  /** Moments at which more runs were executed than a graph may have. */
  overLimit: readonly string[];
  /** Begins nothing more. */
  stop(): Promise<void>;
}>;

/** More unfinished runs than that, and clients wait: what is measured is what breaks, not how long a queue gets. */
const MOST_UNFINISHED = 150;
/** As langgraph.json says. */
const MOST_BURSTS = 2;
const TOOLS = ["asks", "retries", "looks_up"] as const;

export function startClients(
  site: Site,
  { random, clients, thinkMs }: Readonly<{ random: () => number; clients: number; thinkMs: number }>,
): Clients {
  const [accepted, conversations, overLimit]: [Accepted[], Conversation[], string[]] = [[], [], []];
  const asking = new AbortController();
  const { signal } = asking;
  const oneOf = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const ask = (threadId: string, key: string, body: object) =>
    persistently(signal, () =>
      post<{ run_id: string }>(
        `${oneOf(site.urls)}/threads/${threadId}/runs`,
        { if_not_exists: "create", ...body },
        { "idempotency-key": key },
      ),
    );

  let crowded = false;
  const look = async (): Promise<void> => {
    while (!signal.aborted) {
      const found = await loadOf(site).catch(() => undefined);
      crowded = (found?.unfinished ?? 0) > MOST_UNFINISHED;
      if ((found?.bursts ?? 0) > MOST_BURSTS) overLimit.push(`${found?.bursts} bursts at a time`);
      await sleep(500);
    }
  };

  const begin = async (graph: Accepted["graph"]): Promise<void> => {
    const name = randomUUID();
    const priority = graph === "work" && random() < 0.5 ? oneOf(PRIORITY_NAMES) : null;
    const inputs = {
      work: { log: [] },
      agent: { messages: [], name, tool: oneOf(TOOLS) },
    } as const;
    const input = graph === "work" || graph === "agent" ? inputs[graph] : { messages: [humanSays(name)] };
    const config = priority === null ? {} : { config: { configurable: { perdure: { priority } } } };
    const made = await ask(name, name, { assistant_id: graph, input, ...config });
    if (made !== undefined) accepted.push({ graph, threadId: name, runId: made.run_id, name, priority });
  };

  const converse = async (graph: Conversation["graph"]): Promise<void> => {
    const threadId = randomUUID();
    const turns: Turn[] = [];
    conversations.push({ graph, threadId, turns });
    for (let left = 2 + Math.floor(random() * 4); left > 0 && !signal.aborted; left -= 1) {
      const said = `${threadId}/${turns.length}`;
      const strategy = graph === "burst" ? "enqueue" : oneOf(STRATEGIES);
      const body = {
        assistant_id: graph,
        input: { messages: [humanSays(said)] },
        multitask_strategy: strategy,
      };
      const runId = await ask(threadId, said, body).then((made) => made?.run_id, isBusy);
      const patient = graph === "chat" && typeof runId === "string" && random() < 0.4;
      const ended = patient ? await endOf(`${oneOf(site.urls)}/threads/${threadId}/runs/${runId}`, signal) : undefined;
      turns.push({ said, strategy, runId, ended });
      if (graph === "chat") await sleep(random() * 250);
    }
  };

  const client = async (): Promise<void> => {
    while (!signal.aborted) {
      while (crowded && !signal.aborted) await sleep(100);
      const graph = pick(random());
      await (graph === "chat" || graph === "burst" ? converse(graph) : begin(graph));
      await sleep(thinkMs * (0.5 + random()));
    }
  };
  const all = [...Array.from({ length: clients }, client), look()];
  return {
    ...{ accepted, conversations, overLimit },
    async stop() {
      asking.abort();
      await Promise.all(all);
    },
  };
}

const humanSays = (content: string) => ({ role: "human", content });

/** A thread that is busy refuses what asked to be refused then. */
function isBusy(error: unknown): null {
  if ((error as Refusal).status !== 422) throw error;
  return null;
}

/** How a run ended, if it does within a few seconds. */
async function endOf(url: string, signal: AbortSignal): Promise<string | undefined> {
  for (let tries = 0; tries < 40 && !signal.aborted; tries += 1) {
    const run = await get<{ status: string }>(url).catch(() => undefined);
    if (run !== undefined && run.status !== "pending" && run.status !== "running") return run.status;
    await sleep(100);
  }
  return undefined;
}

async function loadOf({ db }: Site): Promise<{ unfinished: number; bursts: number } | undefined> {
  const { rows } = await db.query<{ unfinished: number; bursts: number }>(
    `select count(*)::int as unfinished,
      (count(*) filter (where graph_id = 'burst' and status = 'running'))::int as bursts
    from runs
    where status in ('pending', 'running')`,
  );
  return rows[0];
}

function pick(chance: number): Graph {
  let left = chance * 100;
  for (const [graph, share] of Object.entries(SHARES)) {
    left -= share;
    if (left < 0) return graph as Graph;
  }
  return "work";
}
