// Everything at once: runs of all kinds are made, answered, cancelled, edited, lost and given back in any order, while
// workers stop and start. Afterwards nothing is stuck, and the tables agree with each other and with the graphs' states.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import type { Running } from "../../src/compose-loops.js";
import { sleepFor } from "../../src/engine/sleep.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { seeded } from "../helpers/random.js";
import { until } from "../helpers/wait.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Works, asks on the left, sleeps and asks on the right, fails now and then. */
function graphOf(random: () => number) {
  const work = async () => {
    await new Promise((resolve) => setTimeout(resolve, random() * 40));
    if (random() < 0.05) throw new Error("failed");
    return { log: ["worked"] };
  };
  return new StateGraph(Log)
    .addNode("work", work)
    .addNode("left", () => ({ log: [`left ${String(interrupt("left?"))}`] }))
    .addNode("right", async ({ log }) => {
      await sleepFor(30);
      return { log: [log.length % 2 === 0 ? "right" : `right ${String(interrupt("right?"))}`] };
    })
    .addNode("end", work)
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ log }) =>
      log.at(-2) === "ask" ? ["left", "right"] : log.at(-2) === "sleep" ? "right" : "end",
    )
    .addEdge("left", "end")
    .addEdge("right", "end")
    .addEdge("end", END)
    .compile();
}

/** Operations in the life of a worker. */
const RESTART_AFTER = 20;

type Pick = <T>(items: readonly T[]) => T;

async function query<R extends object>({ db }: TestEngine, text: string, values: unknown[] = []): Promise<R[]> {
  return (await db.db.query<R>(text, values)).rows;
}

/** One thing a client, an operator or fate may do; refusals are answers too. */
async function act(t: TestEngine, random: () => number, pick: Pick, threads: string[]): Promise<void> {
  const { client } = t;
  const threadId = pick(threads);
  const make = (payload: object) => client.runs.create(threadId, "graph", payload);
  const input = { log: [pick(["ask", "sleep", "go"])] };
  const roll = random();
  if (roll < 0.3) await make({ input, multitaskStrategy: pick(["enqueue", "interrupt", "reject"] as const) });
  else if (roll < 0.36) await make({ input: null });
  else if (roll < 0.42) await make({ input, afterSeconds: 0.05 });
  else if (roll < 0.46) await make({ command: { goto: "end", update: { log: ["gone"] } } });
  else if (roll < 0.64) {
    const [open] = await query<{ id: string }>(
      t,
      "select interrupt_id as id from approvals where thread_id = $1 and status = 'pending' order by random() limit 1",
      [threadId],
    );
    await make({ command: { resume: open === undefined || random() < 0.3 ? "yes" : { [open.id]: "yes" } } });
  } else if (roll < 0.74) {
    const [run] = await query<{ id: string }>(
      t,
      "select run_id as id from runs where thread_id = $1 and kind = 'run' order by seq desc limit 3",
      [threadId],
    );
    if (run !== undefined) await client.runs.cancel(threadId, run.id);
  } else if (roll < 0.82) {
    await client.threads.updateState(threadId, { values: { log: ["edited"] }, asNode: pick(["work", "end"]) });
  } else if (roll < 0.9) {
    await t.db.db.query(
      `update runs set lease_expires_at = clock_timestamp() - interval '1 s'
      where status = 'running' and run_id = (select run_id from runs where status = 'running' order by random() limit 1)`,
    );
    await t.sweep();
  } else if (roll < 0.93) {
    threads.splice(threads.indexOf(threadId), 1, (await client.threads.create()).thread_id);
    await client.threads.delete(threadId);
  } else await t.move();
}

/** What any of them may be refused with: never a 500, never a 503. */
function isRefusal(error: unknown): boolean {
  const { status } = error as { status?: number };
  return status !== undefined && status >= 400 && status < 500;
}

async function expectConsistent(t: TestEngine): Promise<void> {
  expect(
    await query(t, "select run_id, status, head from runs where status in ('pending', 'running') or head"),
  ).toEqual([]);
  expect(await query(t, "select kind from timers where status = 'due' and kind = 'run.release'")).toEqual([]);
  // An answer that was accepted finds its question.
  expect(await query(t, "select run_id, error_preview from runs where error_code = 'not_pending'")).toEqual([]);
  // Each run ended once; what is logged after it would be a zombie's.
  expect(
    await query(
      t,
      `select run_id, array_agg(type order by seq) as types
      from events
      where type not like 'approval.%'
      group by run_id
      having count(*) filter (where type in ('run.settled', 'run.cancelled', 'run.gave_up')) <> 1
        or (array_agg(type order by seq desc))[1] not in ('run.settled', 'run.cancelled', 'run.gave_up')`,
    ),
  ).toEqual([]);
  const threads = await query<{ id: string; status: string; asked: string[] }>(
    t,
    `select t.thread_id as id, t.status,
      array(select interrupt_id from approvals a where a.thread_id = t.thread_id and a.status = 'pending' order by 1) as asked
    from threads t`,
  );
  for (const { id, status, asked } of threads) {
    expect(status, id).not.toBe("busy");
    if (asked.length > 0) expect(status, id).toBe("interrupted");
    const state = await t.client.threads.getState(id);
    const open = state.tasks.flatMap((task) => task.interrupts).map((question) => String(question.id));
    for (const question of asked) expect(open, `questions of ${id}`).toContain(question);
    if (status === "interrupted") expect(state.next.length, `${id} waits`).toBeGreaterThan(0);
  }
}

test.each([1, 2, 3])(
  "200 random operations by five at once leave nothing stuck and nothing that disagrees (seed %i)",
  async (seed) => {
    const random = seeded(seed);
    const pick: Pick = (items) => items[Math.floor(random() * items.length)] as (typeof items)[number];
    await withEngine({ graphs: { graph: graphOf(random) }, workers: 2, pollMs: 50 }, async (t) => {
      const threads: string[] = [];
      for (let n = 0; n < 6; n += 1) threads.push((await t.client.threads.create()).thread_id);
      let acting = true;
      let operations = 0;
      const scheduling = (async () => {
        while (acting) {
          if ((await t.fireTimers()) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
      const restarting = (async () => {
        // By what was done, not by time: a slow machine would have more of them to start, and be slower still.
        for (let worker: Running | undefined, next = 0; acting; ) {
          if (operations < next) await new Promise((resolve) => setTimeout(resolve, 10));
          else {
            next = operations + RESTART_AFTER;
            await worker?.stop();
            worker = t.startWorker({ concurrency: 3 });
          }
        }
      })();
      await Promise.all(
        Array.from({ length: 5 }, async () => {
          for (let n = 0; n < 40; n += 1) {
            await act(t, random, pick, threads).catch((error: unknown) => {
              if (!isRefusal(error)) throw error;
            });
            operations += 1;
          }
        }),
      );
      await until("everything to end", async () => {
        await t.sweep();
        return (await query(t, "select 1 from runs where status in ('pending', 'running')")).length === 0;
      });
      await until("the sleepers to be looked at", async () => {
        // In one look: a timer that fires becomes a run, and a run that ends may set a timer.
        const left = `select 1 from timers where status = 'due' and kind = 'run.wake'
          union all select 1 from runs where status in ('pending', 'running')`;
        return (await query(t, left)).length === 0;
      });
      acting = false;
      await Promise.all([scheduling, restarting]);
      await expectConsistent(t);
    });
  },
  300_000,
);
