// What must be true at the end, whatever went wrong: read from the database and from the service that was called.
import type { Db } from "../../../src/core/deps.js";
import { PRIORITY } from "../../../src/core/run.js";
import type { Accepted, Clients } from "./clients.js";
import { judgeConversations, type Talk } from "./conversations.js";
import type { People } from "./people.js";
import type { Service } from "./service.js";

export type Verdict = Readonly<{
  runs: number;
  approvals: number;
  doubts: number;
  /** Runs that killed too many workers, or seemed to, and that a person had tried again. */
  retried: number;
  effects: number;
  /** Runs of tools that declare nothing, behind nodes of LangGraph and langchain. */
  stock: number;
  talk: Talk;
  lost: readonly string[];
  stuck: readonly string[];
  failed: readonly string[];
  doneTwice: readonly string[];
  notDone: readonly string[];
  /** A call that came with another key than before. */
  keysChanged: readonly string[];
  /** What was done although a person said no. */
  forbidden: readonly string[];
  zombieWrites: readonly string[];
  decidedTwice: readonly string[];
  overLimit: readonly string[];
  priorities: readonly string[];
}>;

type Witnesses = Readonly<{ clients: Clients; people: People; service: Service }>;

/** What is not at rest: runs that are to be done, threads that wait for nobody, timers that are due. */
export async function unfinished(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ what: string }>(
    `select 'run ' || run_id || ' is ' || status as what from runs where status in ('pending', 'running')
    union all
    select 'approval ' || approval_id || ' is open' from approvals where status = 'pending'
    union all
    select 'run ' || run_id || ' needs attention' from runs where waits_for = 'person'
    union all
    select 'thread ' || thread_id || ' is ' || status from threads where status = 'busy' and not ephemeral`,
  );
  return rows.map(({ what }) => what);
}

/** `url`: of an API, for what states hold. */
export async function judge(db: Db, url: string, { clients, people, service }: Witnesses): Promise<Verdict> {
  const { accepted, conversations, overLimit } = clients;
  const { rows: runs } = await db.query<Run>(
    `select run_id as id, status, priority, error_code || ': ' || coalesce(error_preview, '') as error,
      seq = max(seq) over (partition by thread_id) as newest
    from runs
    where kind = 'run'`,
  );
  const known = new Map(runs.map((run) => [run.id, run]));
  const effects = [...service.intents];
  return {
    runs: runs.length,
    approvals: people.counts.approvals,
    doubts: people.counts.doubts,
    retried: people.counts.retried,
    effects: effects.length,
    stock: accepted.filter(({ graph }) => ["careful", "bold", "approver"].includes(graph)).length,
    talk: await judgeConversations(db, url, conversations),
    lost: accepted.filter(({ runId }) => !known.has(runId)).map(({ runId }) => runId),
    stuck: await unfinished(db),
    failed: runs
      .filter(({ status, newest }) => newest && (status === "error" || status === "timeout"))
      .map(({ id, error }) => `${id} ${error ?? ""}`),
    doneTwice: effects
      .filter(([, { done }]) => done > 1)
      .map(([intent, { done, asked }]) => `${intent}: ${done} of ${asked}`),
    notDone: accepted.flatMap((run) => owed(run, people).must).filter((intent) => timesDone(service, intent) < 1),
    keysChanged: effects.filter(([, { keys }]) => keys.size > 1).map(([intent, { keys }]) => `${intent}: ${keys.size}`),
    forbidden: accepted.flatMap((run) => owed(run, people).mustNot).filter((intent) => timesDone(service, intent) > 0),
    zombieWrites: await zombieWrites(db),
    decidedTwice: await decidedTwice(db),
    overLimit,
    priorities: accepted
      .filter(({ runId, priority }) => priority !== null && known.get(runId)?.priority !== PRIORITY[priority])
      .map(({ runId, priority }) => `${runId} was to be ${priority}`),
  };
}

type Run = Readonly<{ id: string; status: string; priority: number; error: string | null; newest: boolean }>;

const timesDone = ({ intents }: Service, intent: string): number => intents.get(intent)?.done ?? 0;

/** What must have been done for a run of an agent, by what people said, and what must not. */
function owed({ graph, threadId, name }: Accepted, { answers }: People): { must: string[]; mustNot: string[] } {
  const [always, ifAllowed] = ACTS[graph].map((acts) => acts.map((act) => `${name}/${act}`)) as [string[], string[]];
  const answer = answers.get(threadId);
  return { must: answer === "yes" ? [...always, ...ifAllowed] : always, mustNot: answer === "no" ? ifAllowed : [] };
}

/** Intents of a conversation: those that need nobody's leave, and those that do. */
const ACTS: Readonly<Record<Accepted["graph"], readonly [string[], string[]]>> = {
  work: [[], []],
  agent: [["first"], ["second"]],
  careful: [["a", "b", "c"], []],
  bold: [["a", "b", "c"], []],
  // langchain goes back to the model when a call is rejected, without the calls beside it.
  approver: [[], ["look", "pay 1", "pay 2"]],
};

/** What an attempt wrote after the next one was claimed: lines of the log, and checkpoints. */
async function zombieWrites(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ what: string }>(
    `select 'event ' || e.seq || ' of run ' || e.run_id || ', attempt ' || e.attempt || ' (' || e.type || ')' as what
    from events e
    join events c on c.tenant_id = e.tenant_id and c.run_id = e.run_id and c.type = 'run.claimed'
    where e.attempt > 0 and c.attempt > e.attempt and e.seq > c.seq and e.type not in ('run.lease_lost')
    union all
    select 'checkpoint ' || o.checkpoint_id || ' of run ' || o.run_id || ', attempt ' || o.attempt
    from checkpoints o
    join checkpoints n using (tenant_id, thread_id, ns, run_id)
    where n.seq < o.seq and n.attempt > o.attempt`,
  );
  return rows.map(({ what }) => what);
}

/** A question that more than one run took an answer to. */
async function decidedTwice(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ what: string }>(
    `select 'interrupt ' || interrupt_id || ' of thread ' || thread_id || ' was decided ' || count(*) || ' times' as what
    from approvals
    where status = 'decided'
    group by thread_id, interrupt_id
    having count(*) > 1`,
  );
  return rows.map(({ what }) => what);
}
