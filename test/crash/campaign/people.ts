// Who answers questions, twice sometimes, and looks first whether a thing was done when asked that; and who has runs tried again that
// were given up.
import { setTimeout as sleep } from "node:timers/promises";
import type { Chaos } from "./chaos.js";
import { get, post, type Refusal } from "./requests.js";
import type { Service } from "./service.js";
import type { Site } from "./site.js";

export type People = Readonly<{
  /** Answers to gates that were taken: what they said, by thread. */
  answers: ReadonlyMap<string, "yes" | "no">;
  counts: Readonly<{ approvals: number; doubts: number; retried: number; refusedAnswers: number }>;
  leave(): Promise<void>;
}>;

type Question = Readonly<{
  approval_id: string;
  thread_id: string;
  value: Readonly<{
    kind?: string;
    args?: Readonly<{ intent: string }>;
    actionRequests?: readonly unknown[];
  }> | null;
}>;

export function startPeople(
  site: Site,
  service: Service,
  { random, chaos }: Readonly<{ random: () => number; chaos: () => Chaos | undefined }>,
): People {
  const answers = new Map<string, "yes" | "no">();
  const counts = { approvals: 0, doubts: 0, retried: 0, refusedAnswers: 0 };
  const there = new AbortController();
  const url = (): string => site.urls[Math.floor(random() * site.urls.length)] as string;

  const answer = async ({ approval_id: id, thread_id, value: asked }: Question): Promise<void> => {
    const doubt = asked?.kind === "unknown_effect";
    if (doubt && (chaos()?.frozen() ?? false)) return; // What is frozen may still do it: it can't be known yet.
    const done = (service.intents.get(asked?.args?.intent ?? "")?.done ?? 0) > 0;
    const gate = random() < 0.8 ? "yes" : "no";
    const value = doubt ? (done ? "done" : "retry") : gateAnswer(gate, asked?.actionRequests);
    const decide = () => post(`${url()}/v1/approvals/${id}/decide`, { value, decided_by: "campaign" });
    // Impatient people press twice.
    const presses = await Promise.allSettled(random() < 0.3 ? [decide(), decide()] : [decide()]);
    const taken = presses.filter(({ status }) => status === "fulfilled").length;
    counts.refusedAnswers += presses.length - taken;
    if (taken > 1) throw new Error(`approval ${id} was decided twice`);
    if (taken === 0) return;
    if (doubt) counts.doubts += 1;
    else {
      counts.approvals += 1;
      answers.set(thread_id, gate);
    }
  };
  /** Whose workers were killed three times by others than themselves. */
  const tryAgain = async (): Promise<void> => {
    for (const { run_id: id } of await get<{ run_id: string }[]>(`${url()}/v1/runs?needs_attention=true`)) {
      try {
        await post(`${url()}/v1/runs/${id}/retry`, {});
        counts.retried += 1;
      } catch (error) {
        // Its conversation has gone on without it.
        if ((error as Refusal).status === 409) await post(`${url()}/v1/runs/${id}/close`, {});
      }
    }
  };
  const person = async (): Promise<void> => {
    while (!there.signal.aborted) {
      try {
        await tryAgain();
        const questions = await get<Question[]>(`${url()}/v1/approvals?limit=200`);
        for (const question of questions) if (!there.signal.aborted) await answer(question);
      } catch (error) {
        if (/decided twice/.test(String(error))) throw error;
      }
      await sleep(100);
    }
  };
  const persons = person();
  return {
    answers,
    counts,
    async leave() {
      there.abort();
      await persons;
    },
  };
}

/** langchain's middleware wants a decision for each call that it asks about. */
function gateAnswer(gate: "yes" | "no", actions: readonly unknown[] | undefined): unknown {
  return actions === undefined
    ? gate
    : { decisions: actions.map(() => ({ type: gate === "yes" ? "approve" : "reject" })) };
}
