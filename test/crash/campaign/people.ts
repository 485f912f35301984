// Who uses the installation: clients that ask for runs and ask again when they get no answer, and people who answer questions, twice
// sometimes, and who look first whether a thing was done when they are asked that.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Chaos } from "./chaos.js";
import type { Service } from "./service.js";
import type { Site } from "./site.js";

export type Accepted = Readonly<{ threadId: string; runId: string; graph: "work" | "agent"; name: string }>;

export type People = Readonly<{
  /** Runs whose id a client has. */
  accepted: readonly Accepted[];
  /** Answers to gates that were taken: what they said, by thread. */
  answers: ReadonlyMap<string, "yes" | "no">;
  counts: Readonly<{ approvals: number; doubts: number; retried: number; refusedAnswers: number }>;
  /** Asks for no more runs; questions are answered until `leave`. */
  stopAsking(): Promise<void>;
  leave(): Promise<void>;
}>;

/** More unfinished runs than that, and clients wait: what is measured is what breaks, not how long a queue gets. */
const MOST_UNFINISHED = 150;

const TOOLS = ["asks", "retries", "looks_up"] as const;
type Question = Readonly<{
  approval_id: string;
  thread_id: string;
  value: Readonly<{ kind?: string; args?: Readonly<{ intent: string }> }> | null;
}>;

export function startPeople(
  site: Site,
  service: Service,
  chaos: () => Chaos | undefined,
  options: Readonly<{ random: () => number; clients: number; agentShare: number; thinkMs: number }>,
): People {
  const { random } = options;
  const accepted: Accepted[] = [];
  const answers = new Map<string, "yes" | "no">();
  const counts = { approvals: 0, doubts: 0, retried: 0, refusedAnswers: 0 };
  const asking = new AbortController();
  const there = new AbortController();
  const url = (): string => site.urls[Math.floor(random() * site.urls.length)] as string;

  let crowded = false;
  const look = async (): Promise<void> => {
    while (!asking.signal.aborted) {
      const unfinished = "select count(*)::int as n from runs where status in ('pending', 'running')";
      const found = await site.db.query<{ n: number }>(unfinished).catch(() => undefined);
      crowded = (found?.rows[0]?.n ?? 0) > MOST_UNFINISHED;
      await sleep(500);
    }
  };
  const client = async (): Promise<void> => {
    while (!asking.signal.aborted) {
      while (crowded && !asking.signal.aborted) await sleep(100);
      const graph = random() < options.agentShare ? "agent" : "work";
      const name = randomUUID();
      const tool = TOOLS[Math.floor(random() * TOOLS.length)];
      const input = graph === "work" ? { log: [] } : { messages: [], name, tool };
      // The client names the thread, so that asking again makes no second one; the run's key does the same for the run.
      const body = { assistant_id: graph, input, if_not_exists: "create" };
      const made = await persistently(asking.signal, () =>
        post<{ run_id: string }>(`${url()}/threads/${name}/runs`, body, { "idempotency-key": name }),
      );
      if (made !== undefined) accepted.push({ threadId: name, runId: made.run_id, graph, name });
      await sleep(options.thinkMs * (0.5 + random()));
    }
  };

  const answer = async (question: Question): Promise<void> => {
    const { kind, args } = question.value ?? {};
    const doubt = kind === "unknown_effect";
    if (doubt && (chaos()?.frozen() ?? false)) return; // What is frozen may still do it: it can't be known yet.
    const done = (service.intents.get(args?.intent ?? "")?.done ?? 0) > 0;
    const gate = random() < 0.8 ? "yes" : "no";
    const value = doubt ? (done ? "done" : "retry") : gate;
    const decide = () =>
      post<{ run_id: string }>(`${url()}/v1/approvals/${question.approval_id}/decide`, {
        value,
        decided_by: "campaign",
      });
    // Impatient people press twice.
    const presses = await Promise.allSettled(random() < 0.3 ? [decide(), decide()] : [decide()]);
    const taken = presses.filter(({ status }) => status === "fulfilled").length;
    counts.refusedAnswers += presses.length - taken;
    if (taken > 1) throw new Error(`approval ${question.approval_id} was decided twice`);
    if (taken === 0) return;
    if (doubt) counts.doubts += 1;
    else {
      counts.approvals += 1;
      answers.set(question.thread_id, gate);
    }
  };
  /** Whose workers were killed three times by others than themselves. */
  const tryAgain = async (): Promise<void> => {
    const response = await fetch(`${url()}/v1/runs?needs_attention=true`, { signal: AbortSignal.timeout(10_000) });
    for (const { run_id: id } of (await response.json()) as { run_id: string }[]) {
      await post(`${url()}/v1/runs/${id}/retry`, {});
      counts.retried += 1;
    }
  };
  const person = async (): Promise<void> => {
    while (!there.signal.aborted) {
      try {
        await tryAgain();
        const response = await fetch(`${url()}/v1/approvals?limit=200`, { signal: AbortSignal.timeout(10_000) });
        const questions = (await response.json()) as Question[];
        for (const question of questions) if (!there.signal.aborted) await answer(question);
      } catch (error) {
        if (/decided twice/.test(String(error))) throw error;
      }
      await sleep(100);
    }
  };
  const clients = [...Array.from({ length: options.clients }, client), look()];
  const persons = person();
  return {
    accepted,
    answers,
    counts,
    async stopAsking() {
      asking.abort();
      await Promise.all(clients);
    },
    async leave() {
      there.abort();
      await persons;
    },
  };
}

/** Again and again until it is answered; undefined when it is given up. */
async function persistently<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T | undefined> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { status?: number }).status !== undefined && (error as { status: number }).status < 500)
        throw error;
      // Whoever has asked once asks until it is known what became of it.
      if (signal.aborted && tries > 100) return undefined;
      await sleep(100);
    }
  }
}

async function post<T>(url: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<T> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  if (!response.ok) throw Object.assign(new Error(`${url}: ${response.status} ${text}`), { status: response.status });
  return JSON.parse(text) as T;
}
