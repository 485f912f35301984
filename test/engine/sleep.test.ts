// Sleeping inside graphs: once, twice, side by side, beside a question, in a subgraph, and next to delayed runs.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { sleepFor, sleepUntil } from "../../src/engine/sleep.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

type Row = Readonly<{ status: string; attempt: number; waits_for: string | null; available_at: Date | null }>;

async function runs({ db }: TestEngine, threadId: string): Promise<Row[]> {
  const { rows } = await db.db.query<Row>(
    "select status, attempt, waits_for, available_at from runs where thread_id = $1 order by seq",
    [threadId],
  );
  return rows;
}

async function started({ client }: TestEngine): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.create(thread_id, "graph", { input: { log: [] } });
  return thread_id;
}

async function asleep(t: TestEngine, threadId: string): Promise<Date> {
  return until("the run to sleep", async () => (await runs(t, threadId)).at(-1)?.available_at);
}

/** As if so much time had passed for everything that waits. */
async function pass({ db }: TestEngine, ms: number): Promise<void> {
  const earlier = "- $1::float8 * interval '1 ms'";
  await db.db.query(`update timers set due_at = due_at ${earlier} where kind like 'run.%' and status = 'due'`, [ms]);
}

const log = async ({ client }: TestEngine, threadId: string) =>
  (await client.threads.getState<{ log: string[] }>(threadId)).values.log;

const ended = (t: TestEngine, threadId: string) =>
  until("the run to end", async () => (await runs(t, threadId)).every(({ status }) => status === "success"));

const soon = () => new Date(Date.now() + 300);

test("a node that sleeps twice sleeps twice, and goes on after each as one run", async () => {
  const entered: number[] = [];
  const graph = new StateGraph(Log)
    .addNode("node", async () => {
      entered.push(Date.now());
      await sleepFor(200);
      await sleepFor(200);
      return { log: ["done"] };
    })
    .addEdge(START, "node")
    .addEdge("node", END)
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    await until("the run to end", async () => {
      await t.fireTimers();
      return (await runs(t, threadId))[0]?.status === "success";
    });
    expect(await log(t, threadId)).toEqual(["done"]);
    expect(entered).toHaveLength(3);
    expect((entered[2] ?? 0) - (entered[0] ?? 0)).toBeGreaterThanOrEqual(400);
  });
});

test("a question after a sleep in one node is asked, and answered by a person", async () => {
  const graph = new StateGraph(Log)
    .addNode("node", async () => {
      await sleepUntil(new Date(0));
      return { log: [String(interrupt("now?"))] };
    })
    .addEdge(START, "node")
    .addEdge("node", END)
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    await until("the question", async () => {
      await t.fireTimers();
      return (await runs(t, threadId))[0]?.status === "interrupted";
    });
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    expect(await log(t, threadId)).toEqual([]);
    await t.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(await log(t, threadId)).toEqual(["yes"]);
  });
});

test("after a step behind a sleep failed and is tried again by hand, the sleep is no answer to the question behind it", async () => {
  let fails = true;
  const graph = new StateGraph(Log)
    .addNode("node", async () => {
      await sleepUntil(new Date(0));
      if (fails) throw new Error("not yet");
      return { log: [String(interrupt("now?"))] };
    })
    .addEdge(START, "node")
    .addEdge("node", END)
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    await until("the failure", async () => {
      await t.fireTimers();
      return (await runs(t, threadId))[0]?.status === "error";
    });
    fails = false;
    await t.client.runs.wait(threadId, "graph", { input: null });
    expect((await t.client.threads.getState(threadId)).tasks).toMatchObject([{ interrupts: [{ value: "now?" }] }]);
    expect(await log(t, threadId)).toEqual([]);
  });
});

test("of two branches that sleep side by side, the shorter sleep does not make the longer one longer", async () => {
  const graph = new StateGraph(Log)
    .addNode("short", async () => {
      await sleepFor(500);
      return { log: ["short"] };
    })
    .addNode("long", async () => {
      await sleepFor(3_600_000);
      return { log: ["long"] };
    })
    .addEdge(START, "short")
    .addEdge(START, "long")
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    const first = await asleep(t, threadId);
    const instants = () =>
      t.client.threads
        .getState(threadId)
        .then(() =>
          t.db.db.query<{ data: Buffer }>("select data from checkpoint_writes where channel = '__interrupt__'"),
        )
        .then(({ rows }) => rows.map(({ data }) => data.toString()).filter((text) => text.includes("until")));
    const before = (await instants()).filter((text) => !text.includes(first.toISOString()));
    const second = await until("the longer sleep", async () => {
      await t.fireTimers();
      const until = (await runs(t, threadId))[0]?.available_at;
      return until && until > first && until;
    });
    expect(before).toHaveLength(1);
    expect(before[0]).toContain(second.toISOString());
  });
});

/** One branch asks, the other sleeps and then does something. */
function questionBesideSleep(ms: number) {
  return new StateGraph(Log)
    .addNode("ask", () => ({ log: [`answer ${String(interrupt("sure?"))}`] }))
    .addNode("remind", async () => {
      await sleepFor(ms);
      return { log: ["reminded"] };
    })
    .addNode("end", () => ({ log: ["end"] }))
    .addEdge(START, "ask")
    .addEdge(START, "remind")
    .addEdge(["ask", "remind"], "end")
    .compile();
}

const openQuestions = async ({ db }: TestEngine) =>
  (
    await db.db.query<{ interrupt_id: string; approval_id: string }>(
      "select interrupt_id, approval_id from approvals where status = 'pending'",
    )
  ).rows;

test("a sleep beside a question is over in its time, answered or not; the question stays the same", async () => {
  await withEngine({ graphs: { graph: questionBesideSleep(3_600_000) } }, async (t) => {
    const threadId = await started(t);
    const asked = await until("the question", async () => (await openQuestions(t))[0]);
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    const reminded = async () => {
      const { rows } = await t.db.db.query(
        "select 1 from checkpoint_writes where convert_from(data, 'utf8') like '%reminded%'",
      );
      return rows.length > 0;
    };
    await t.db.db.query("update timers set due_at = now() where kind = 'run.wake'");
    // Woken too early, it sleeps on.
    expect(await t.fireTimers()).toBe(1);
    await until("the woken run to end", async () => (await runs(t, threadId))[1]?.status === "interrupted");
    expect(await reminded()).toBe(false);
    await t.db.db.query(
      `update checkpoint_writes
      set data = convert_to(regexp_replace(convert_from(data, 'utf8'), '"until":"[^"]*"', '"until":"2020-01-01T00:00:00.000Z"'), 'utf8')
      where channel = '__interrupt__'`,
    );
    await t.db.db.query("update timers set due_at = now() where kind = 'run.wake' and status = 'due'");
    expect(await t.fireTimers()).toBe(1);
    await until("the reminder", reminded);
    await until("the woken run to end", async () => (await runs(t, threadId))[2]?.status === "interrupted");
    expect(await openQuestions(t)).toEqual([asked]);
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    await t.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(await log(t, threadId)).toEqual(["answer yes", "reminded", "end"]);
    expect(await t.fireTimers()).toBe(0);
  });
});

test("an answer beside a sleep is taken at once; the sleep goes on to its own time", async () => {
  await withEngine({ graphs: { graph: questionBesideSleep(3_600_000) } }, async (t) => {
    const threadId = await started(t);
    await until("the question", async () => (await openQuestions(t))[0]);
    await t.client.runs.create(threadId, "graph", { command: { resume: "yes" } });
    const wakesAt = await asleep(t, threadId);
    expect(wakesAt.getTime()).toBeLessThan(Date.now() + 3_600_000);
    expect((await t.client.threads.get(threadId)).status).toBe("busy");
    expect(await openQuestions(t)).toEqual([]);
    // The timer of the run that asked finds that somebody else looks after the branch.
    await t.db.db.query("update timers set due_at = now() where kind = 'run.wake'");
    expect(await t.fireTimers()).toBe(0);
    expect(await runs(t, threadId)).toHaveLength(2);
  });
});

test("a sleep in a subgraph parks the run, and no step before it is entered again", async () => {
  const entered: string[] = [];
  const sub = new StateGraph(Log)
    .addNode("before", () => {
      entered.push("before");
      return { log: ["before"] };
    })
    .addNode("sleep", async () => {
      entered.push("sleep");
      await sleepUntil(soon());
      await sleepFor(100);
      return { log: ["slept"] };
    })
    .addEdge(START, "before")
    .addEdge("before", "sleep")
    .compile();
  const graph = new StateGraph(Log).addNode("sub", sub).addEdge(START, "sub").compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    await asleep(t, threadId);
    await until("the run to end", async () => {
      await t.fireTimers();
      return (await runs(t, threadId))[0]?.status === "success";
    });
    expect(await log(t, threadId)).toEqual(["before", "slept"]);
    expect(entered.filter((node) => node === "before")).toHaveLength(1);
    expect((await runs(t, threadId))[0]?.attempt).toBe(3);
  });
});

test("a sleeping run that is cancelled is not woken; a new run without input goes on where it slept", async () => {
  const graph = new StateGraph(Log)
    .addNode("node", async () => {
      await sleepFor(3_600_000);
      return { log: ["slept"] };
    })
    .addEdge(START, "node")
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await started(t);
    const first = await asleep(t, threadId);
    const [run] = await t.client.runs.list(threadId);
    await t.client.runs.cancel(threadId, run!.run_id);
    await pass(t, 7_200_000);
    expect(await t.fireTimers()).toBe(0);
    expect((await t.client.threads.get(threadId)).status).toBe("idle");
    await t.client.runs.create(threadId, "graph", { input: null });
    expect(await asleep(t, threadId)).toEqual(first);
  });
});

test("a delayed run lets others pass, and takes its turn when its time has come", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.create(threadId, "graph", { input: { log: ["later"] }, afterSeconds: 3_600 });
    await t.client.runs.wait(threadId, "graph", { input: { log: ["now"] } });
    expect(await log(t, threadId)).toEqual(["now", "s1"]);
    expect(await t.fireTimers()).toBe(0);
    await pass(t, 7_200_000);
    expect(await t.fireTimers()).toBe(1);
    await ended(t, threadId);
    expect(await log(t, threadId)).toEqual(["now", "s1", "later", "s1"]);
    expect((await t.client.threads.get(threadId)).status).toBe("idle");
  });
});

test("a run with a delay of nothing starts like any other", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, pollMs: 600_000 }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.create(threadId, "graph", { input: { log: [] }, afterSeconds: 0 });
    await ended(t, threadId);
  });
});
