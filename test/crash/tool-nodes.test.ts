// A worker is killed after the model's answer, in the middle of a three-call stock ToolNode, and before the approval.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

const PARTS = ["model", "tool a", "tool b", "tool c", "gate"] as const;

/** What is held when the worker dies, and how often each part was entered in the end. */
const MOMENTS = [
  { hold: ["tool a", "tool b", "tool c"], entered: [1, 2, 2, 2, 2] },
  { hold: ["tool b"], entered: [1, 1, 2, 1, 2] },
  // Answered, the node that asks is entered a third time, as LangGraph does.
  { hold: ["gate"], entered: [1, 1, 1, 1, 3] },
];

test("killed after the model's answer, inside a stock ToolNode and before the approval: nothing finished is entered again", async () => {
  await withCrashSite(async (site) => {
    const worker = site.worker();
    const runs = await Promise.all(
      MOMENTS.map(async ({ hold, entered }) => {
        const journal = site.journal();
        const { thread_id: threadId } = await site.client.threads.create();
        const config = { configurable: { journal: journal.path, hold, step_ms: 1 } };
        const { run_id: runId } = await site.client.runs.create(threadId, "tooled", {
          input: { messages: [] },
          config,
        });
        return { hold, entered, journal, threadId, runId, config };
      }),
    );
    await until("all to be held, with what is beside it recorded", async () => {
      const held = runs.every(({ hold, journal }) => hold.every((part) => journal.count(`enter ${part}`) === 1));
      const { rows } = await site.db.db.query<{ n: number }>(
        "select count(*)::int as n from effects where status = 'succeeded'",
      );
      return held && rows[0]?.n === 0 + 2 + 3;
    });
    await worker.kill();
    await site.expire(worker);
    site.worker();
    for (const { hold, entered, journal, threadId, runId, config } of runs) {
      await until("it to ask", async () => (await site.client.runs.get(threadId, runId)).status === "interrupted");
      const { interrupts } = await site.client.threads.get(threadId);
      const [question] = Object.values(interrupts ?? {}).flat();
      const resume = { [question!.id as string]: "yes" };
      const { messages } = (await site.client.runs.wait(threadId, "tooled", { command: { resume }, config })) as {
        messages: { content: string }[];
      };
      expect(messages.map(({ content }) => content)).toEqual(["", "tool a", "tool b", "tool c", "approved: yes"]);
      const counts = PARTS.map((part) => journal.count(`enter ${part}`));
      expect(counts, `held: ${hold.join(", ")}`).toEqual(entered);
    }
  });
}, 120_000);
