// P7: an approval is decided once, against the question it was asked; everyone else gets 409 with who decided what.
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";

const json = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

test("20 answers at once: one wins, 19 get 409 naming the decision, the gated act runs at most once", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { gate: gateGraph(acted) } }, async ({ client, app }) => {
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "gate", { input: { log: [] } });
    const answers = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? "yes" : "no"));
    const responses = await Promise.all(
      answers.map(async (resume) =>
        app.request(`/threads/${thread_id}/runs`, json({ assistant_id: "gate", command: { resume } })),
      ),
    );
    const won = responses.filter((response) => response.status === 200);
    expect(won).toHaveLength(1);
    expect(responses.filter((response) => response.status === 409)).toHaveLength(19);
    const run = (await won[0]?.json()) as { run_id: string };
    const decided = answers[responses.findIndex((response) => response.status === 200)];
    for (const refusal of responses.filter((response) => response.status === 409)) {
      const words = await refusal.text();
      expect(words).toContain(run.run_id);
      expect(words).toMatch(new RegExp(`was decided \\(${decided}\\) by api at 20`));
    }
    await client.runs.join(thread_id, run.run_id);
    expect(acted).toHaveLength(decided === "yes" ? 1 : 0);
  });
});

test("two questions in a row, the first answer delivered twice at once: the second question still waits", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { gate: gateGraph(acted, ["first", "second"]) } }, async ({ client, app }) => {
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "gate", { input: { log: [] } });
    const answer = async () => {
      const body = json({ assistant_id: "gate", command: { resume: "yes" } });
      const response = await app.request(`/threads/${thread_id}/runs/wait`, body);
      // The status comes at once, the end of the body with the end of the run.
      await response.text();
      return response;
    };
    const statuses = (await Promise.all([answer(), answer()])).map((response) => response.status).sort();
    expect(statuses).toEqual([200, 409]);
    // A third click, after the second question is open, must not answer it either.
    expect((await answer()).status).toBe(409);
    const state = await client.threads.getState(thread_id);
    expect(state.next).toEqual(["second"]);
    expect((await client.threads.get(thread_id)).status).toBe("interrupted");
    expect(acted).toEqual([]);
  });
});

test("an answer to nothing, to an unknown question or to another thread's is refused and leaves nothing behind", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { gate: gateGraph(acted) } }, async ({ client, app, db }) => {
    const [waiting, other] = [await client.threads.create(), await client.threads.create()];
    await client.runs.wait(waiting.thread_id, "gate", { input: { log: [] } });
    await client.runs.wait(other.thread_id, "gate", { input: { log: [] } });
    const count = async () => (await db.db.query<{ n: number }>("select count(*) as n from runs")).rows[0]?.n;
    const before = await count();
    const [interrupt] = Object.values((await client.threads.get(other.thread_id)).interrupts).flat();
    const resume = (thread: string, value: unknown) =>
      app.request(`/threads/${thread}/runs`, json({ assistant_id: "gate", command: { resume: value } }));
    expect((await resume(waiting.thread_id, { [String(interrupt?.id)]: "yes" })).status).toBe(409);
    expect((await resume(waiting.thread_id, { ["0".repeat(32)]: "yes" })).status).toBe(409);
    const finished = await client.threads.create();
    expect((await resume(finished.thread_id, "yes")).status).toBe(409);
    expect(await count()).toBe(before);
    expect(acted).toEqual([]);
  });
});
