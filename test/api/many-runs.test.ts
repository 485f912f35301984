// Runs made and cancelled by the dozen, as the stock client asks for them.
import { describe, expect, test } from "vitest";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs: { gate, steps }, workers: 1 });
const input = { log: [] };
const later = { input, afterSeconds: 3_600 };

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const init = { method: "POST", body: JSON.stringify(body), headers };
  const response = await shared().app.request(path, init);
  return { status: response.status, text: await response.text(), headers: response.headers };
}

async function countRuns(): Promise<number> {
  const { rows } = await shared().db.db.query<{ n: number }>("select count(*)::int as n from runs");
  return rows[0]?.n ?? 0;
}

describe("a batch", () => {
  test("makes a run of each, in their order, with what the client says in camel case", async () => {
    const { client, deps } = shared();
    const runs = await client.runs.createBatch([
      { assistantId: "steps", input, metadata: { n: 1 }, onCompletion: "keep" as never },
      { assistantId: "gate", input, interruptBefore: ["before"], metadata: { n: 2 }, afterSeconds: 3_600 },
    ]);
    expect(runs.map(({ metadata }) => metadata?.["n"])).toEqual([1, 2]);
    const [first, second] = runs;
    expect(await client.runs.join(first?.thread_id ?? "", first?.run_id ?? "")).toEqual({ log: ["1", "2", "3"] });
    expect(second).toMatchObject({ status: "pending", kwargs: { interrupt_before: ["before"] } });
    const timers = await deps.db.query("select 1 from timers where ref_id = $1 and kind = 'run.release'", [
      second?.run_id,
    ]);
    expect(timers.rows).toHaveLength(1);
  });

  test.each([
    [[], 422, ""],
    [{}, 422, "must be a list"],
    [[{ assistant_id: "steps" }, { assistant_id: "steps", streamMode: "all" }], 422, "[1].stream_mode: "],
    [[{ assistant_id: "steps" }, { assistant_id: "nobody" }], 404, "nobody"],
    [[{ assistant_id: "steps" }, { assistant_id: "steps", interruptAfter: ["onee"] }], 422, "onee"],
    [[{ assistant_id: "steps" }, { assistant_id: "steps", onDisconnect: "cancel" }], 422, "on_disconnect"],
    [[{ assistant_id: "steps" }, { assistant_id: "steps", feedbackKeys: ["k"] }], 422, "[1].feedback_keys: "],
  ])("%j is refused whole: no run of it is made", async (body, status, text) => {
    const before = await countRuns();
    const answer = await post("/runs/batch", body);
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(text)]);
    expect(await countRuns()).toBe(before);
  });

  test("with a key it is made once; fields nobody knows are named", async () => {
    const body = [
      { assistant_id: "steps", input, newer: 1 },
      { assistant_id: "steps", input },
    ];
    const before = await countRuns();
    const answers = await Promise.all([1, 2, 3].map(() => post("/runs/batch", body, { "idempotency-key": "batch" })));
    const ids = answers.map(({ text }) => (JSON.parse(text) as { run_id: string }[]).map(({ run_id }) => run_id));
    expect(new Set(ids.map(String)).size).toBe(1);
    expect(await countRuns()).toBe(before + 2);
    expect(answers[0]?.headers.get("x-perdure-ignored-fields")).toBe(encodeURIComponent("[0].newer"));
  });
});

describe("cancelling", () => {
  test("ends those that are named, or takes them back, and none when one isn't there", async () => {
    const { client } = shared();
    const { thread_id } = await client.threads.create();
    const runs = [
      await client.runs.create(thread_id, "steps", later),
      await client.runs.create(thread_id, "steps", later),
    ];
    const [first = "", second = ""] = runs.map(({ run_id }) => run_id);
    const status = async (id: string) => (await client.runs.get(thread_id, id)).status;
    const wrong = await post("/runs/cancel", { run_ids: [first, crypto.randomUUID()] });
    expect([wrong.status, await status(first)]).toEqual([404, "pending"]);
    const elsewhere = await post("/runs/cancel", { thread_id: crypto.randomUUID(), run_ids: [first] });
    expect([elsewhere.status, await status(first)]).toEqual([404, "pending"]);
    await client.runs.cancelMany({ threadId: thread_id, runIds: [first] });
    expect([await status(first), await status(second)]).toEqual(["interrupted", "pending"]);
    await client.runs.cancelMany({ runIds: [second], action: "rollback" });
    await expect(client.runs.get(thread_id, second)).rejects.toThrow("HTTP 404");
  });

  test("ends all of a status, of one thread or of all", async () => {
    const { client } = shared();
    const [one, two] = [await client.threads.create(), await client.threads.create()];
    for (const { thread_id } of [one, two]) await client.runs.create(thread_id, "steps", later);
    const statuses = async ({ thread_id }: { thread_id: string }) =>
      (await client.runs.list(thread_id)).map(({ status }) => status);
    await client.runs.cancelMany({ threadId: one.thread_id, status: "running" });
    expect(await statuses(one)).toEqual(["pending"]);
    await client.runs.cancelMany({ threadId: one.thread_id, status: "pending" });
    expect([await statuses(one), await statuses(two)]).toEqual([["interrupted"], ["pending"]]);
    await client.runs.cancelMany({ status: "all" });
    expect(await statuses(two)).toEqual(["interrupted"]);
  });

  test.each([{}, { run_ids: [], status: "all" }, { status: "error" }, { run_ids: ["x"] }])(
    "%j is refused",
    async (body) => {
      expect((await post("/runs/cancel", body)).status).toBe(422);
    },
  );
});
