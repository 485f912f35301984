// One life of the run: begun in a process that may kill itself on the way, and gone on with elsewhere when it has.
import { randomUUID } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isRunning } from "../../../src/db/embedded/process.js";
import { type TestEngine, withEngine } from "../../helpers/engine.js";
import { startProcess, type TestProcess } from "../../helpers/processes.js";
import { graphOf, life, policies, type Policy } from "./life.js";
import type { CallMoment, Payments } from "./service.js";
import { describeWrites, installSpy, writtenElsewhere } from "./spy.js";

/** A boundary between two durable writes: which, the how manieth of its kind, and on which side of it. */
export type Kill = Readonly<{ label: string; nth: number; side: "before" | "after" | CallMoment }>;

/** What was there when the process had died. */
export type Left = Readonly<{ ledger: string | null; done: number; asked: number; openModelCalls: number }>;
export type Ended = Readonly<{
  /** Null: it came to its end without dying. */
  left: Left | null;
  /** How the last of the thread's runs ended, and what the thread is. */
  run: string;
  thread: string;
  questions: number;
  done: number;
  asked: number;
  modelCalls: number;
  messages: readonly string[];
}>;
export type Point = Readonly<{ label: string; nth: number; writes: string }>;

const VICTIM = fileURLToPath(new URL("victim.mjs", import.meta.url));

export type Victim = TestProcess & Readonly<{ home: string }>;

/** A process that has loaded everything and waits for its job: loading is what takes long. */
export function startVictim(payments: Payments): Victim {
  const home = mkdtempSync(join(tmpdir(), "perdure-boundary-"));
  const env = { NODE_OPTIONS: `--import=${import.meta.resolve("tsx")}`, CRASH_SERVICE: payments.url };
  return { ...startProcess([join(home, "job")], { script: VICTIM, env }), home };
}

function giveJob({ home }: Victim, job: object): void {
  writeFileSync(join(home, "draft"), JSON.stringify(job));
  renameSync(join(home, "draft"), join(home, "job"));
}

/** Lives through it; `points` is what was written on the way, in order, if it lived to its end. */
export async function live(
  victim: Victim,
  payments: Payments,
  policy: Policy,
  kill: Kill | null,
): Promise<Ended & Readonly<{ points: readonly Point[]; elsewhere: readonly string[] }>> {
  const bodies = `file://${victim.home}/bodies`;
  const settings = { graphs: { life, cautious: life }, policies, workers: 0, pollMs: 20, leaseMs: 30_000, bodies };
  try {
    return await withEngine(settings, async (site) => {
      await site.db.db.query("create table public.payments (intent text)");
      await installSpy(site.db.db);
      giveJob(victim, { databaseUrl: site.db.url, bodies, kill });
      const intent = randomUUID();
      if (kill?.side === "asked" || kill?.side === "done") payments.killAt(intent, kill.side, victim.pid);
      const [, url = ""] = await victim.waitFor(/"url":"(.+?)"/);
      const left = await goOn(site, { victim, url, payments, policy, intent });
      const points = pointsIn(victim.output());
      const ended = { ...(await endOf(site, payments, intent)), left };
      await victim.kill();
      return {
        ...ended,
        points: await describeWrites(site.db.db, points),
        elsewhere: left === null ? await writtenElsewhere(site.db.db, points) : [],
      };
    });
  } finally {
    await victim.kill();
    rmSync(victim.home, { recursive: true, force: true });
  }
}

type Life = Readonly<{ victim: Victim; url: string; payments: Payments; policy: Policy; intent: string }>;

/** Until nothing is left to do; what the victim left when it died. */
async function goOn(site: TestEngine, { victim, url, payments, policy, intent }: Life): Promise<Left | null> {
  let left: Left | null = null;
  const takeOver = async (): Promise<void> => {
    left = await whatIsLeft(site, payments, intent);
    await site.db.db.query("update runs set lease_expires_at = clock_timestamp() where status = 'running'");
    await site.db.db.query("update timers set due_at = clock_timestamp() where status = 'due'");
    site.startWorker();
  };
  /** Asks until there is an answer, of whoever lives; as a client that has a key does. */
  const ask = async (path: string, key: string, body: object): Promise<void> => {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const request = { method: "POST", headers, body: JSON.stringify(body) };
    for (;;) {
      if (left === null && !isRunning(victim.pid)) await takeOver();
      const asked = left === null ? fetch(`${url}${path}`, request) : Promise.resolve(site.app.request(path, request));
      const response = await asked.catch(() => undefined);
      if (response?.ok === true) return;
      if (response !== undefined && response.status < 500) throw new Error(`${path}: ${await response.text()}`);
      await sleep(5);
    }
  };
  const input = { messages: [], intent, policy };
  await ask(`/threads/${intent}/runs`, intent, { assistant_id: graphOf(policy), input, if_not_exists: "create" });
  for (const endMs = performance.now() + 60_000; performance.now() < endMs; await sleep(10)) {
    if (left === null && !isRunning(victim.pid)) await takeOver();
    if (left !== null) {
      await site.sweep();
      await site.fireTimers();
      await site.move();
    }
    // What it has to do by itself is done before anybody answers, so that each life writes in the same order.
    if (!(await isQuiet(site))) continue;
    const question = await openQuestion(site);
    if (question !== undefined) {
      const done = (await paid(site, payments, intent)) > 0;
      const value = question.kind === "unknown_effect" ? (done ? "done" : "retry") : "yes";
      await ask(`/v1/approvals/${question.id}/decide`, question.id, { value });
      continue;
    }
    // Who dies with its last write is dead a moment later.
    await sleep(20);
    if (left === null && !isRunning(victim.pid)) await takeOver();
    return left;
  }
  throw new Error(`the life with ${policy} came to no end`);
}

async function openQuestion({ client, db }: TestEngine): Promise<{ id: string; kind: unknown } | undefined> {
  const { rows } = await db.db.query<{ id: string; thread: string }>(
    "select approval_id as id, thread_id as thread from approvals where status = 'pending'",
  );
  const [open] = rows;
  if (open === undefined) return undefined;
  const { interrupts } = await client.threads.get(open.thread);
  const value = Object.values(interrupts ?? {}).flat()[0]?.value as { kind?: unknown } | undefined;
  return { id: open.id, kind: value?.kind };
}

async function isQuiet({ db }: TestEngine): Promise<boolean> {
  const { rows } = await db.db.query(
    `select 1 from runs where status in ('pending', 'running')
    union all select 1 from timers where status = 'due'`,
  );
  return rows.length === 0;
}

/** Of whichever tool: those of a local effect are in the database. */
async function paid({ db }: TestEngine, payments: Payments, intent: string): Promise<number> {
  const { rows } = await db.db.query("select 1 from public.payments");
  return payments.done(intent) + rows.length;
}

async function whatIsLeft(site: TestEngine, payments: Payments, intent: string): Promise<Left> {
  const { rows } = await site.db.db.query<{ ledger: string | null; calls: number }>(
    `select (select status from effects) as ledger,
      (select count(*)::int from model_calls where status = 'reserved') as calls`,
  );
  const done = await paid(site, payments, intent);
  return {
    ...{ ledger: rows[0]?.ledger ?? null, openModelCalls: rows[0]?.calls ?? 0 },
    ...{ done, asked: Math.max(done, payments.asked(intent)) },
  };
}

async function endOf(site: TestEngine, payments: Payments, intent: string): Promise<Omit<Ended, "left">> {
  const { rows } = await site.db.db.query<{ run: string; questions: number; calls: number }>(
    `select (select status from runs where kind = 'run' order by seq desc limit 1) as run,
      (select count(*)::int from approvals) as questions, (select count(*)::int from model_calls) as calls`,
  );
  const { values } = await site.client.threads.getState<{ messages: readonly { type: string }[] }>(intent);
  const done = await paid(site, payments, intent);
  return {
    run: rows[0]?.run ?? "none",
    thread: (await site.client.threads.get(intent)).status,
    questions: rows[0]?.questions ?? 0,
    ...{ done, asked: Math.max(done, payments.asked(intent)) },
    modelCalls: rows[0]?.calls ?? 0,
    messages: values.messages.map(({ type }) => type),
  };
}

function pointsIn(output: string): (Point & { xid: string | null })[] {
  return output
    .split("\n")
    .filter((line) => line.startsWith('{"point"'))
    .map((line) => JSON.parse(line) as { point: string; nth: number; xid: string | null })
    .map(({ point: label, nth, xid }) => ({ label, nth, xid, writes: "" }));
}
