// P8 where it counts: the worker is killed before a payment, after it, and after its record, with each policy.
import { expect, test } from "vitest";
import { until } from "../helpers/wait.js";
import { type Journal, withCrashSite } from "./setup.js";

const POLICIES = ["ask", "lookup", "retry", "fail"] as const;
type Policy = (typeof POLICIES)[number];
type Expected = Readonly<{ status: string; payments: number; ledger: string }>;

/** Moment by policy: how the run stops, how often was paid, and what the ledger says. */
const TABLE: Readonly<Record<string, Readonly<Record<Policy, Expected>>>> = {
  request: {
    ask: { status: "interrupted", payments: 0, ledger: "unknown" },
    lookup: { status: "success", payments: 1, ledger: "succeeded" },
    retry: { status: "success", payments: 1, ledger: "succeeded" },
    fail: { status: "error", payments: 0, ledger: "unknown" },
  },
  reply: {
    ask: { status: "interrupted", payments: 1, ledger: "unknown" },
    lookup: { status: "success", payments: 1, ledger: "succeeded" },
    // The other side has to honour the key: it is the same.
    retry: { status: "success", payments: 2, ledger: "succeeded" },
    fail: { status: "error", payments: 1, ledger: "unknown" },
  },
  after: {
    ask: { status: "success", payments: 1, ledger: "succeeded" },
    lookup: { status: "success", payments: 1, ledger: "succeeded" },
    retry: { status: "success", payments: 1, ledger: "succeeded" },
    fail: { status: "success", payments: 1, ledger: "succeeded" },
  },
};

const payments = (journal: Journal) => journal.lines().filter((line) => line.startsWith("leave pay "));

test("killed before a payment, after it and after its record: what each policy says, and one key throughout", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (const [moment, expected] of Object.entries(TABLE)) {
      const runs = await Promise.all(
        POLICIES.map(async (policy) => {
          const journal = site.journal();
          const { thread_id: threadId } = await site.client.threads.create();
          const configurable = { journal: journal.path, policy, hold: [moment], step_ms: 1 };
          const { run_id: runId } = await site.client.runs.create(threadId, "payer", {
            input: {},
            config: { configurable },
          });
          return { policy, journal, threadId, runId, configurable };
        }),
      );
      await until(`all to be at ${moment}`, () => runs.every(({ journal }) => journal.count(`enter ${moment}`) === 1));
      await worker.kill();
      await site.expire(worker);
      worker = site.worker();
      for (const { policy, journal, threadId, runId } of runs) {
        const what = `${policy}, killed at ${moment}`;
        const status = async () => (await site.client.runs.get(threadId, runId)).status as string;
        await until(`${what} to stop`, async () => !["pending", "running"].includes(await status()));
        const { rows } = await site.db.db.query<{ status: string }>("select status from effects where thread_id = $1", [
          threadId,
        ]);
        const found = { status: await status(), payments: payments(journal).length, ledger: rows[0]?.status };
        expect(found, what).toEqual(expected[policy]);
        expect(new Set(payments(journal)).size, what).toBeLessThanOrEqual(1);
      }
      const asked = runs.find(({ policy }) => policy === "ask")!;
      if (expected.ask.status !== "interrupted") continue;
      // A person who found out says that it was done: nothing is called any more.
      const { interrupts } = await site.client.threads.get(asked.threadId);
      const [question] = Object.values(interrupts ?? {}).flat();
      const { configurable } = asked;
      const resume = { [question!.id as string]: "done" };
      await site.client.runs.wait(asked.threadId, "payer", { command: { resume }, config: { configurable } });
      expect(payments(asked.journal)).toHaveLength(expected.ask.payments);
      expect((await site.client.threads.get(asked.threadId)).status).toBe("idle");
    }
  });
}, 120_000);
