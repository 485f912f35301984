// P12 under kills: what a run has spent is what its provider has counted, whatever died in between; what can't be known is told apart.
import { expect, test } from "vitest";
import { startProvider } from "../helpers/provider.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

test("workers are killed after an answer and in the middle of a call: settled and in doubt are what the provider counts", async () => {
  const provider = await startProvider();
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const { thread_id } = await site.client.threads.create();
    const put = await site.app.request(`/v1/budgets/thread/${thread_id}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ tokens: 100_000 }),
    });
    expect(put.status).toBe(200);
    const configurable = { journal: journal.path, provider: provider.url, hold: ["between"], step_ms: 1 };
    const { run_id } = await site.client.runs.create(thread_id, "asking", {
      input: { messages: [{ role: "user", content: "go" }] },
      config: { configurable },
    });
    const record = async () => {
      const response = await site.app.request(`/threads/${thread_id}/runs/${run_id}/record`);
      type Seen = { token_so_far: number; status: string; budget: { in_doubt: { calls: number; tokens: number } } };
      return (await response.json()) as Seen;
    };

    const first = site.worker();
    await until("the first answer to be stored", () => journal.count("enter between") === 1);
    expect(await record()).toMatchObject({ token_so_far: provider.tokens() });
    await first.kill();
    await site.expire(first);

    provider.slow(60_000);
    const second = site.worker();
    await until("the second call", () => provider.asked() === 2);
    await second.kill();
    await site.expire(second);

    provider.slow(0);
    site.worker();
    await until("success", async () => (await record()).status === "success", { timeoutMs: 60_000 });
    // Asked: once, cut off once, once again. The first was not asked again.
    expect(provider.asked()).toBe(3);
    const { token_so_far, budget } = await record();
    expect(token_so_far).toBe(provider.tokens());
    expect(budget.in_doubt.calls).toBe(1);
    expect(budget.in_doubt.tokens).toBeGreaterThan(200);
  });
  await provider.close();
}, 120_000);
