// Messages that come while a run is at work, three in a row, by every route that makes runs.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

/** Runs are at work until it is opened. */
let door = Promise.resolve();
let open = (): void => {};

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const slow = new StateGraph(State)
  .addNode("work", async ({ log }, { signal }: LangGraphRunnableConfig) => {
    const stopped = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new Error("stopped"))));
    await Promise.race([door, stopped]);
    return { log: [`did ${log.at(-1)}`] };
  })
  .addEdge(START, "work")
  .addEdge("work", END)
  .compile();

type MultitaskStrategy = "reject" | "enqueue" | "interrupt" | "rollback";

/** The most runs of the thread that ran at one time, looked at all the time until `stop`. */
function watchRunning({ db }: TestEngine, threadId: string) {
  let going = true;
  const most = (async () => {
    let most = 0;
    while (going) {
      const { rows } = await db.db.query<{ n: number }>(
        "select count(*)::int as n from runs where thread_id = $1 and status = 'running'",
        [threadId],
      );
      most = Math.max(most, rows[0]?.n ?? 0);
      await sleep(20);
    }
    return most;
  })();
  return {
    stop() {
      going = false;
      return most;
    },
  };
}

/** Sends one by create, one by stream, one by wait, while the first is at work; resolves when all is over. */
async function sendFour({ client }: TestEngine, threadId: string, multitaskStrategy: MultitaskStrategy): Promise<void> {
  door = new Promise((resolve) => (open = resolve));
  const payload = (key: string) => ({ input: { log: [key] }, metadata: { key }, raiseError: false });
  const newest = async () => (await client.runs.list(threadId, { limit: 1 }))[0];
  const accepted = (key: string) =>
    until(`${key} to be accepted`, async () => (await newest())?.metadata?.["key"] === key);
  await client.runs.create(threadId, "slow", payload("a"));
  await until(
    "the first to begin",
    async () => (await client.threads.getState<{ log?: string[] }>(threadId)).values.log?.[0] === "a",
  );

  const refuses = multitaskStrategy === "reject";
  const send = async (key: string, sent: (payload: object) => Promise<unknown>): Promise<unknown> => {
    const answer = sent({ ...payload(key), multitaskStrategy });
    if (refuses) return expect(answer).rejects.toThrow("422");
    await accepted(key);
    // Taken back, it is gone for who waits for it.
    return [answer.catch(() => undefined)];
  };
  const answers = [
    await send("b", (body) => client.runs.create(threadId, "slow", body)),
    await send("c", async (body) => {
      for await (const _ of client.runs.stream(threadId, "slow", body));
    }),
    await send("d", (body) => client.runs.wait(threadId, "slow", body)),
  ];
  open();
  await Promise.all(answers.flat());
  for (const run of await client.runs.list(threadId)) await client.runs.join(threadId, run.run_id);
}

const CASES: readonly (readonly [MultitaskStrategy, readonly string[], readonly string[]])[] = [
  ["reject", ["a", "did a"], ["success"]],
  ["enqueue", ["a", "did a", "b", "did b", "c", "did c", "d", "did d"], ["success", "success", "success", "success"]],
  ["interrupt", ["d", "did d"], ["interrupted", "interrupted", "interrupted", "success"]],
  ["rollback", ["d", "did d"], ["success"]],
];

test.each(CASES)("%s: the thread has what it says, and never two runs at once", async (strategy, said, statuses) => {
  await withEngine({ graphs: { slow } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const running = watchRunning(t, thread_id);
    await sendFour(t, thread_id, strategy);
    expect(await running.stop()).toBe(1);
    const runs = (await t.client.runs.list(thread_id)).reverse();
    expect(runs.map(({ status }) => status)).toEqual(statuses);
    const { values } = await t.client.threads.getState<{ log: string[] }>(thread_id);
    // What was interrupted leaves its message, if it had begun.
    expect(values.log.slice(-said.length)).toEqual(said);
    if (strategy !== "interrupt") expect(values.log).toEqual(said);
    else expect(values.log[0]).toBe("a");
    expect(await t.client.threads.get(thread_id)).toMatchObject({ status: "idle" });
  });
});
