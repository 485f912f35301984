// What must be true at the end, whatever went wrong: read from the database and from the service that was called.
import type { Db } from "../../../src/core/deps.js";
import type { People } from "./people.js";
import type { Service } from "./service.js";

export type Verdict = Readonly<{
  runs: number;
  approvals: number;
  doubts: number;
  /** Runs that killed too many workers, or seemed to, and that a person had tried again. */
  retried: number;
  effects: number;
  lost: readonly string[];
  stuck: readonly string[];
  failed: readonly string[];
  doneTwice: readonly string[];
  notDone: readonly string[];
  zombieWrites: readonly string[];
  decidedTwice: readonly string[];
}>;

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

export async function judge(db: Db, people: People, service: Service): Promise<Verdict> {
  const { rows: runs } = await db.query<{ id: string; status: string; error: string | null; newest: boolean }>(
    `select run_id as id, status, error_code || ': ' || coalesce(error_preview, '') as error,
      seq = max(seq) over (partition by thread_id) as newest
    from runs
    where kind = 'run'`,
  );
  const known = new Set(runs.map(({ id }) => id));
  const effects = [...service.intents];
  return {
    runs: runs.length,
    approvals: people.counts.approvals,
    doubts: people.counts.doubts,
    retried: people.counts.retried,
    effects: effects.length,
    lost: people.accepted.filter(({ runId }) => !known.has(runId)).map(({ runId }) => runId),
    stuck: await unfinished(db),
    failed: runs
      .filter(({ status, newest }) => newest && (status === "error" || status === "timeout"))
      .map(({ id, error }) => `${id} ${error ?? ""}`),
    doneTwice: effects
      .filter(([, { done }]) => done > 1)
      .map(([intent, { done, asked }]) => `${intent}: ${done} of ${asked}`),
    notDone: missing(people, service),
    zombieWrites: await zombieWrites(db),
    decidedTwice: await decidedTwice(db),
  };
}

/** Acts that must have happened: the first of each agent, and the second of those that may go on. */
function missing({ accepted, answers }: People, service: Service): string[] {
  return accepted
    .filter(({ graph }) => graph === "agent")
    .flatMap(({ threadId, name }) => [`${name}/first`, ...(answers.get(threadId) === "yes" ? [`${name}/second`] : [])])
    .filter((intent) => (service.intents.get(intent)?.done ?? 0) < 1);
}

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

/** A question that more than one run took an answer to, or a thread that did what one "no" forbids. */
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
