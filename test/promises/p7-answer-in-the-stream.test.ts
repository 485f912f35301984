// P7: a question can be answered as soon as it is seen: no answer is too fast, 200 times out of 200.
import type { StreamMode } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";

const THREADS = 100;
const AT_ONCE = 20;
const MODES: readonly StreamMode[] = ["values", "updates", "tasks", "debug"];

type Question = Readonly<{ id: string; value: Readonly<{ question: string }> }>;

/** The question in an event of any mode, if there is one. */
function questionOf(data: unknown): Question | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  for (const [key, value] of Object.entries(data)) {
    const asked = (key === "__interrupt__" || key === "interrupts") && Array.isArray(value) ? value[0] : undefined;
    const found = (asked as Question | undefined) ?? (key === "payload" ? questionOf(value) : undefined);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Answers both questions of a new thread inside the handler of the stream that shows them; returns the runs that answered. */
async function converse({ client }: TestEngine, streamMode: StreamMode): Promise<string[]> {
  const { thread_id } = await client.threads.create();
  const resumed: string[] = [];

  async function follow(stream: AsyncIterable<{ event: string; data: unknown }>): Promise<void> {
    for await (const { data } of stream) {
      const question = questionOf(data);
      if (question === undefined) continue;
      // The second by id: a plain answer right after another could be its double click.
      const resume = question.value.question === "first" ? "yes" : { [question.id]: "yes" };
      const { run_id } = await client.runs.create(thread_id, "gate", { command: { resume }, streamMode });
      resumed.push(run_id);
      // From its beginning: it may have asked the next question already.
      await follow(client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" }));
    }
  }
  await follow(client.runs.stream(thread_id, "gate", { input: { log: [] }, streamMode }) as never);

  const states = await Promise.all(resumed.map((run_id) => client.runs.get(thread_id, run_id)));
  expect(states.map(({ status }) => status)).toEqual(["interrupted", "success"]);
  const state = await client.threads.getState<{ log: string[] }>(thread_id);
  expect(state.values.log).toEqual(["first:yes", "second:yes", "acted"]);
  return resumed;
}

test("a client that answers inside its stream handler, 200 times: 200 resumed runs", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { gate: gateGraph(acted, ["first", "second"]) }, concurrency: AT_ONCE }, async (t) => {
    const resumed: string[] = [];
    for (let from = 0; from < THREADS; from += AT_ONCE) {
      const batch = Array.from({ length: AT_ONCE }, (_, i) => converse(t, MODES[i % MODES.length] ?? "values"));
      resumed.push(...(await Promise.all(batch)).flat());
    }
    expect(new Set(resumed).size).toBe(2 * THREADS);
    expect(acted).toHaveLength(2 * THREADS);
    const { rows } = await t.db.db.query<{ n: number }>(
      "select count(*) as n from approvals where status <> 'decided'",
    );
    expect(rows[0]?.n).toBe(0);
  });
}, 240_000);
