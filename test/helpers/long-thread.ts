// A thread with everything that pruning could break: a hundred checkpoints, a fork at the fortieth, a question at the head that a
// subgraph asks, a delta channel, subgraphs that forget and one that remembers.
import {
  Annotation,
  DeltaValue,
  END,
  interrupt,
  ReducedValue,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import type { Checkpoint, ThreadState } from "@langchain/langgraph-sdk";
import { z } from "zod";
import type { TestEngine } from "./engine.js";

const strings = z.array(z.string());
const State = new StateSchema({
  log: new ReducedValue(
    strings.default(() => []),
    { inputSchema: strings, reducer: (a, b) => [...a, ...b] },
  ),
  diary: new DeltaValue(
    strings.default(() => []),
    {
      inputSchema: strings,
      reducer: (diary: string[], entries: string[][]) => diary.concat(...entries),
      snapshotFrequency: 13,
    },
  ),
  visits: z.number().default(0),
  till: z.number().default(0),
  ask: z.boolean().default(false),
  answer: z.string().default(""),
});

/** New with each step; some are long enough for a body of their own. */
const entry = (n: number, what = "step") => `${what} ${n} ${"lorem ipsum ".repeat(n % 8 === 0 ? 100 : 2)}`;

/** Logs until the log has `till` entries, then asks, if it is told to, and remembers in between. */
export function longGraph() {
  const Visits = Annotation.Root({
    visits: Annotation<number>(),
    own: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
  });
  const lasting = new StateGraph(Visits)
    .addNode("enter", () => ({ own: 1 }))
    .addNode("tell", ({ own }) => ({ visits: own }))
    .addEdge(START, "enter")
    .addEdge("enter", "tell")
    .addEdge("tell", END)
    .compile({ checkpointer: true });
  const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
  const inner = new StateGraph(Log)
    .addNode("one", ({ log }) => ({ log: [entry(log.length, "inner")] }))
    .addNode("two", () => ({}))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile();
  const asking = new StateGraph(Annotation.Root({ answer: Annotation<string>() }))
    .addNode("think", () => ({}))
    .addNode("put", () => ({ answer: String(interrupt({ question: "go on?" })) }))
    .addEdge(START, "think")
    .addEdge("think", "put")
    .addEdge("put", END)
    .compile();
  type Next = Readonly<{ log: string[]; till: number; ask: boolean; answer: string }>;
  const next = ({ log, till, ask, answer }: Next) => {
    if (log.length < till) return log.length % 12 === 6 ? "inner" : "step";
    return ask && answer === "" ? "gate" : END;
  };
  return new StateGraph(State)
    .addNode("step", ({ log }) => ({ log: [entry(log.length)], diary: [`day ${log.length}`] }))
    .addNode("inner", async ({ log }) => ({ log: (await inner.invoke({ log })).log.slice(log.length) }))
    .addNode("lasting", lasting)
    .addNode("gate", asking)
    .addEdge(START, "lasting")
    .addEdge("lasting", "step")
    .addConditionalEdges("step", next)
    .addConditionalEdges("inner", next)
    .addEdge("gate", "lasting")
    .compile();
}

export type LongThread = Readonly<{
  threadId: string;
  /** The leaf of the first branch, which has 100 checkpoints. */
  main: string;
  /** The leaf of the fork, which asks. */
  fork: string;
}>;

const CONFIG = { recursion_limit: 300 };
const MAIN = 97;
const AT = 40;

/** Fewer checkpoints than the case's make the same shape sooner. */
export async function longThread({ client }: TestEngine, checkpoints = 100): Promise<LongThread> {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "long", { input: { till: MAIN - 100 + checkpoints, ask: false }, config: CONFIG });
  const history = await client.threads.getHistory(threadId, { limit: 1_000 });
  if (history.length !== checkpoints) throw new Error(`the first branch has ${history.length} checkpoints`);
  const from = history.at(-Math.round((AT * checkpoints) / 100))?.checkpoint.checkpoint_id;
  if (!from) throw new Error("no checkpoint to fork from");
  await client.runs.wait(threadId, "long", {
    input: { till: Math.round((AT * checkpoints) / 100) + 20, ask: true },
    config: CONFIG,
    checkpointId: from,
  });
  const head = await client.threads.getState(threadId);
  return { threadId, main: history[0]?.checkpoint.checkpoint_id ?? "", fork: head.checkpoint.checkpoint_id ?? "" };
}

/** What can be seen at a checkpoint, without what differs from thread to thread. */
export async function seen(
  { client }: Pick<TestEngine, "client">,
  threadId: string,
  checkpointId: string,
): Promise<unknown> {
  const address = { checkpoint_id: checkpointId, checkpoint_ns: "" } as Checkpoint;
  const state = await client.threads.getState(threadId, address, { subgraphs: true });
  return plain(state);
}

function plain(state: ThreadState<unknown>): unknown {
  return {
    values: state.values,
    next: state.next,
    tasks: state.tasks.map((task) => ({
      name: task.name,
      asks: task.interrupts.map(({ value }) => value),
      state: task.state ? plain(task.state) : null,
    })),
  };
}
