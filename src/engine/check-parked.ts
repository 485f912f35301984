// Whether the threads that are to go on some time can go on with the graphs as they are now: to be asked before a deploy.
import { KnowingSaver } from "../checkpoint/saver.js";
import { readNewestTuples } from "../checkpoint/read-tuples.js";
import { isBodyLost, isEngineError } from "../core/errors.js";
import { unwrittenToolsOf } from "../effects/tool-nodes.js";
import { listAssistants } from "../assistants/queries.js";
import type { AssistantId, TenantId, ThreadId } from "../core/ids.js";
import { OWN, UNPINNED } from "../core/pin.js";
import { type ParkedThread, parkedThreads } from "../runs/threads.js";
import type { Engine } from "./engine.js";
import { misfitOf } from "./fit.js";
import { graphIdOf, openGraph } from "./state.js";

export type ParkedProblem = Readonly<{
  threadId: ThreadId;
  runId: string | null;
  graphId: string | null;
  /** Of the code that parked it, and of what is here. */
  parkedBy: string | null;
  version: string | null;
  /** It can't go on; otherwise it loses something. */
  stops: boolean;
  why: string;
}>;

/** Threads that go on with other code than what is here, which can't say whether that can. */
export type ParkedElsewhere = Readonly<{ graphId: string | null; pin: string; threads: number }>;

export type ParkedReport = Readonly<{
  threads: number;
  problems: readonly ParkedProblem[];
  elsewhere: readonly ParkedElsewhere[];
}>;

const AT_ONCE = 50;

/** Tools whose calls are made as they always were: nothing of them is in the ledger, and what was cut off is made again. */
export async function unwrittenTools({
  graphs,
}: Engine): Promise<readonly Readonly<{ graphId: string; tool: string }>[]> {
  const found = [];
  for (const graphId of graphs.ids) {
    const graph = await graphs.get(graphId).catch(() => null);
    found.push(...(graph === null ? [] : unwrittenToolsOf(graph)).map((tool) => ({ graphId, tool })));
  }
  return found;
}

/** Looks at every thread that waits for a person or a time, or is being worked on. */
export async function checkParked(engine: Engine, tenantId: TenantId): Promise<ParkedReport> {
  const problems: ParkedProblem[] = [];
  const elsewhere = new Map<string, ParkedElsewhere>();
  const pins = new Map((await listAssistants(engine.deps.db, tenantId)).map((row) => [row.assistantId, row.pin]));
  let threads = 0;
  for (let after: ThreadId | null = null; ; ) {
    const page: Awaited<ReturnType<typeof parkedThreads>> = await parkedThreads(engine.deps.db, {
      ...{ tenantId, after, limit: AT_ONCE },
    });
    threads += page.length;
    for (const thread of page) {
      const pin = pinnedElsewhere(engine, pins, thread);
      if (pin === null) problems.push(...(await problemsOf(engine, tenantId, thread)));
      else count(elsewhere, graphIdOf(thread) ?? null, pin);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < AT_ONCE) return { threads, problems, elsewhere: [...elsewhere.values()] };
    after = last.threadId;
  }
}

/** The version that the thread goes on with, if that is not the one here. */
function pinnedElsewhere(
  { graphs }: Engine,
  pins: ReadonlyMap<AssistantId, string>,
  thread: ParkedThread,
): string | null {
  const said = (thread.assistantId && pins.get(thread.assistantId)) ?? UNPINNED;
  const pin = said === OWN ? thread.agentVersion : said;
  if (pin === null || pin === UNPINNED) return null;
  const graphId = graphIdOf(thread);
  return graphId !== undefined && graphs.has(graphId) && graphs.version(graphId) === pin ? null : pin;
}

function count(elsewhere: Map<string, ParkedElsewhere>, graphId: string | null, pin: string): void {
  const key = `${graphId} ${pin}`;
  elsewhere.set(key, { graphId, pin, threads: (elsewhere.get(key)?.threads ?? 0) + 1 });
}

async function problemsOf(engine: Engine, tenantId: TenantId, thread: ParkedThread): Promise<ParkedProblem[]> {
  const graphId = graphIdOf(thread) ?? null;
  const known = graphId !== null && engine.graphs.has(graphId);
  const base = {
    ...{ threadId: thread.threadId, runId: thread.runId, graphId, parkedBy: thread.agentVersion },
    version: known ? engine.graphs.version(graphId) : null,
  };
  if (graphId === null) return [];
  if (!known) return [{ ...base, stops: true, why: `graph "${graphId}" is gone` }];
  try {
    return await misfits(engine, tenantId, thread, base);
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "graph_invalid") && !(error instanceof Error)) throw error;
    if (isEngineError(error, "unavailable")) throw error;
    return [
      { ...base, stops: true, why: `its state can't be read: ${isEngineError(error) ? error.message : error.name}` },
    ];
  }
}

async function misfits(
  engine: Engine,
  tenantId: TenantId,
  thread: ParkedThread,
  base: Omit<ParkedProblem, "stops" | "why">,
): Promise<ParkedProblem[]> {
  const { deps, bodyReader } = engine;
  const options = { sql: deps.db, tenantId, bodies: bodyReader, commit: null };
  const tuples = await readNewestTuples(options, [thread.threadId], "");
  const graph = await openGraph(engine, { tenantId, thread }, new KnowingSaver(options, tuples));
  const head = tuples.get(thread.threadId);
  if (graph === undefined || head === undefined) return [];
  const { nodes, keys } = misfitOf(graph, head);
  // What the graph makes of it is what a resume would start from: a schema that refuses the state does so here.
  await graph.getState({ configurable: { thread_id: thread.threadId } }, { subgraphs: true });
  return [
    ...nodes.map((node) => ({ ...base, stops: true, why: `node "${node}", where it goes on, is gone` })),
    ...keys.map((key) => ({ ...base, stops: false, why: `state key "${key}" is gone, and what it holds is left out` })),
  ];
}
