// Idempotency-Key: a request that comes again makes nothing new, whichever form it has and wherever it arrives.
import { describe, expect, test } from "vitest";
import { createScheduler } from "../../src/engine/loops/scheduler.js";
import { until } from "../helpers/wait.js";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const engine = sharedEngine({ graphs: { steps, gate }, workers: 1, identityHeaders: true });

type Answer = Readonly<{ status: number; text: string; run: string | undefined; replayed: boolean }>;

async function post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await engine().app.request(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    run: response.headers.get("content-location")?.split("/").at(-1),
    replayed: response.headers.get("idempotent-replayed") === "true",
  };
}

const key = (name: string) => ({ "idempotency-key": name });
const runsOf = async (threadId: string) => (await engine().client.runs.list(threadId)).map(({ run_id }) => run_id);
const threadId = async () => (await engine().client.threads.create()).thread_id;
const INPUT = { assistant_id: "steps", input: { log: [] } };

describe("runs", () => {
  test.each(["", "/stream", "/wait"])(
    "twenty at once make one run, and all get its answer: POST /runs%s",
    async (how) => {
      const thread = await threadId();
      const path = `/threads/${thread}/runs${how}`;
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(path, INPUT, key("once"))));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      expect(await runsOf(thread)).toEqual([...new Set(answers.map(({ run }) => run))]);
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
      if (how === "/wait") for (const { text } of answers) expect(JSON.parse(text)).toEqual({ log: ["1", "2", "3"] });
      if (how === "/stream") expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      // And long after it has ended.
      const again = await post(path, { input: { log: [] }, assistant_id: "steps" }, key("once"));
      expect(again).toMatchObject({ status: 200, run: answers[0]?.run, replayed: true });
    },
  );

  test("another body with the key is refused by name; another thread, form or caller has a key of its own", async () => {
    const [thread, other] = [await threadId(), await threadId()];
    const path = `/threads/${thread}/runs`;
    const first = await post(path, INPUT, key("k"));
    const changed = await post(path, { ...INPUT, input: { log: ["else"] } }, key("k"));
    expect(changed).toMatchObject({
      status: 409,
      text: expect.stringMatching(/Idempotency-Key "k" .*another request/),
    });
    expect(changed.text).toContain(first.run);
    const own = [
      await post(`/threads/${other}/runs`, INPUT, key("k")),
      await post(`${path}/wait`, INPUT, key("k")),
      await post(path, INPUT, { ...key("k"), "x-perdure-person": "bob" }),
      await post(path, INPUT, key("K")),
    ];
    for (const { status, replayed } of own) expect({ status, replayed }).toEqual({ status: 200, replayed: false });
    expect(new Set([first, ...own].map(({ run }) => run)).size).toBe(5);
  });

  test("an empty key or one that is too long is refused; without one each request makes a run", async () => {
    const thread = await threadId();
    const path = `/threads/${thread}/runs`;
    for (const name of ["", "  ", "x".repeat(256)])
      expect(await post(path, INPUT, key(name))).toMatchObject({ status: 422 });
    expect(await post(path, INPUT, key("x".repeat(255)))).toMatchObject({ status: 200 });
    await post(path, INPUT);
    await post(path, INPUT);
    expect(await runsOf(thread)).toHaveLength(3);
  });

  test("a run without a thread is made once, too", async () => {
    const answers = await Promise.all([1, 2, 3].map(() => post("/runs/wait", INPUT, key("stateless"))));
    expect(new Set(answers.map(({ run }) => run)).size).toBe(1);
  });

  test("a request that was refused has used no key: it may come again when it can be met", async () => {
    const thread = await threadId();
    const asked = { assistant_id: "gate", input: { log: [] } };
    await post(`/threads/${thread}/runs/wait`, asked);
    const answer = { assistant_id: "gate", command: { resume: { ["0".repeat(32)]: "yes" } } };
    for (let n = 0; n < 2; n += 1) {
      expect(await post(`/threads/${thread}/runs`, answer, key("answer"))).toMatchObject({
        status: 409,
        replayed: false,
      });
    }
    const before = await runsOf(thread);
    const [question] = Object.values((await engine().client.threads.get(thread)).interrupts).flat();
    const right = { assistant_id: "gate", command: { resume: { [question?.id ?? ""]: "yes" } } };
    expect(await post(`/threads/${thread}/runs`, right, key("answer"))).toMatchObject({ status: 200, replayed: false });
    expect(await runsOf(thread)).toHaveLength(before.length + 1);
  });

  test("an answer that comes again joins its own run, though its question is closed by now", async () => {
    const thread = await threadId();
    await post(`/threads/${thread}/runs/wait`, { assistant_id: "gate", input: { log: [] } });
    const answer = { assistant_id: "gate", command: { resume: "yes" } };
    const first = await post(`/threads/${thread}/runs/wait`, answer, key("yes"));
    expect(JSON.parse(first.text)).toEqual({ log: ["before", "yes", "after"] });
    expect(await post(`/threads/${thread}/runs/wait`, answer, key("yes"))).toMatchObject({
      run: first.run,
      text: first.text,
    });
  });

  test("what is deleted is not made again", async () => {
    const thread = await threadId();
    await post(`/threads/${thread}/runs/wait`, INPUT, key("gone"));
    await engine().client.threads.delete(thread);
    expect(await post(`/threads/${thread}/runs/wait`, INPUT, key("gone"))).toMatchObject({ status: 410 });
  });
});

describe("threads and decisions", () => {
  test("a thread is made once, also one whose id is given", async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => post("/threads", { metadata: { a: 1 } }, key("t"))),
    );
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    const thread_id = crypto.randomUUID();
    expect(await post("/threads", { thread_id }, key("given"))).toMatchObject({ status: 200 });
    expect(await post("/threads", { thread_id }, key("given"))).toMatchObject({ status: 200, replayed: true });
    expect(await post("/threads", { thread_id })).toMatchObject({ status: 409 });
  });

  test("a thread is copied once", async () => {
    const thread = await threadId();
    await post(`/threads/${thread}/runs/wait`, INPUT);
    const first = await post(`/threads/${thread}/copy`, {}, key("copy"));
    const again = await post(`/threads/${thread}/copy`, {}, key("copy"));
    expect(again.replayed).toBe(true);
    expect(JSON.parse(again.text).thread_id).toBe(JSON.parse(first.text).thread_id);
  });

  test("a state is edited once; what was refused, or died before it was stored, has used no key", async () => {
    const thread = await threadId();
    await post(`/threads/${thread}/runs/wait`, INPUT);
    const path = `/threads/${thread}/state`;
    const edit = { values: { log: ["edited"] }, as_node: "three" };
    expect(await post(path, { ...edit, as_node: "nowhere" }, key("refused"))).toMatchObject({ status: 422 });
    expect(await post(path, { ...edit, as_node: "nowhere" }, key("refused"))).toMatchObject({ status: 422 });
    const answers = await Promise.all(Array.from({ length: 4 }, () => post(path, edit, key("edit"))));
    const made = answers.filter(({ status }) => status === 200);
    // Others were told to come again.
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(4 - made.length);
    const again = await post(path, edit, key("edit"));
    expect(again).toMatchObject({ status: 200, replayed: true });
    expect(new Set([again, ...made].map(({ text }) => text)).size).toBe(1);
    expect(await post(path, { ...edit, values: { log: ["else"] } }, key("edit"))).toMatchObject({ status: 409 });
    const { values } = await engine().client.threads.getState<{ log: string[] }>(thread);
    expect(values.log.filter((line) => line === "edited")).toHaveLength(1);
    // As if its process had died with the thread held and nothing written.
    const { db } = engine().db;
    await db.query(
      "update idempotency_keys set made_id = gen_random_uuid() where made_id in (select run_id from runs where kind = 'edit')",
    );
    expect(await post(path, edit, key("edit"))).toMatchObject({ status: 410 });
    const lost = await db.query<{ id: string }>(
      `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, kind, status, head, finished_at)
      select tenant_id, gen_random_uuid(), thread_id, assistant_id, graph_id, 'edit', 'error', false, now()
      from runs where thread_id = $1 limit 1 returning run_id as id`,
      [thread],
    );
    await db.query("update idempotency_keys set made_id = $1 where made_id not in (select run_id from runs)", [
      lost.rows[0]?.id,
    ]);
    expect(await post(path, edit, key("edit"))).toMatchObject({ status: 200, replayed: false });
  });

  test("a decision that comes again gets the run it made", async () => {
    const thread = await threadId();
    await post(`/threads/${thread}/runs/wait`, { assistant_id: "gate", input: { log: [] } });
    const { app } = engine();
    const listed = await app.request(`/v1/approvals?thread_id=${thread}`);
    const [approval] = (await listed.json()) as { approval_id: string }[];
    const path = `/v1/approvals/${approval?.approval_id}/decide`;
    const first = await post(path, { value: "yes" }, key("decide"));
    expect(await post(path, { value: "yes" }, key("decide"))).toMatchObject({
      status: 200,
      run: first.run,
      replayed: true,
    });
    expect(await post(path, { value: "no" }, key("decide"))).toMatchObject({ status: 409 });
    expect(await post(path, { value: "yes" })).toMatchObject({ status: 409 });
  });
});

test("keys are kept for more than a day, then forgotten", async () => {
  const { deps, db } = engine();
  const thread = await threadId();
  const made = async (hours: number) => {
    const { run } = await post(`/threads/${thread}/runs`, INPUT, key(`${hours} h`));
    await db.db.query(
      "update idempotency_keys set created_at = created_at - $2 * interval '1 hour' where made_id = $1",
      [run, hours],
    );
    return async () => (await db.db.query("select 1 from idempotency_keys where made_id = $1", [run])).rows.length;
  };
  const [day, longer] = [await made(24), await made(26)];
  // An hour from its start at the latest is when it looks.
  let skipMs = 0;
  const clock = { ...deps.clock, monotonicMs: () => deps.clock.monotonicMs() + skipMs };
  const scheduler = createScheduler({ ...deps, clock }, { pollMs: 10 });
  skipMs = 3_600_000;
  scheduler.start();
  try {
    await until("the older key to be gone", async () => (await longer()) === 0);
    expect(await day()).toBe(1);
  } finally {
    await scheduler.stop();
  }
});

/** Those that make nothing, or that come to the same when they come again. */
const NOT_CREATING = [
  "/assistants/:assistant_id/latest",
  "/assistants/:assistant_id/versions",
  "/assistants/count",
  "/assistants/search",
  "/runs/cancel",
  "/runs/crons/count",
  "/runs/crons/search",
  "/store/items/search",
  "/store/namespaces",
  "/threads/count",
  "/threads/prune",
  "/threads/search",
  "/threads/:thread_id/history",
  "/threads/:thread_id/runs/:run_id/cancel",
  "/threads/:thread_id/state/checkpoint",
  "/threads/:thread_id/stream/events",
  "/ui/:graph_id",
  "/v1/channels/:channel_account_id/webhook",
  "/v1/contacts",
  "/v1/deliveries/:delivery_id/resolve",
  "/v1/followups/:followup_id/cancel",
  "/v1/followups/:followup_id/reschedule",
  "/v1/runs/:run_id/close",
  "/v1/schedules/:schedule_id/pause",
  "/v1/schedules/:schedule_id/resume",
  "/v1/suppressions",
  "/v1/widget/conversations/:conversation_id/approvals/:approval_id",
  "/v1/widget/conversations/:conversation_id/messages",
  "/v1/widget/conversations/:conversation_id/read",
  "/v1/widget/conversations/:conversation_id/received",
  "/v1/widget/sessions",
];
/** Each has a test here, in test/api/crons.test.ts, test/engine/failure-policy.test.ts, test/api/protocol.test.ts, test/api/mcp.test.ts, test/api/a2a.test.ts, test/channels/api.test.ts or test/channels/schedules-api.test.ts. */
const CREATING = [
  "/a2a/:assistant_id",
  "/assistants",
  "/mcp",
  "/runs",
  "/runs/batch",
  "/runs/crons",
  "/runs/stream",
  "/runs/wait",
  "/threads",
  "/threads/:thread_id/commands",
  "/threads/:thread_id/copy",
  "/threads/:thread_id/runs",
  "/threads/:thread_id/runs/crons",
  "/threads/:thread_id/runs/stream",
  "/threads/:thread_id/runs/wait",
  "/threads/:thread_id/state",
  "/v1/approvals/:approval_id/decide",
  "/v1/channel-accounts",
  "/v1/runs/:run_id/retry",
  "/v1/schedules",
  "/v1/schedules/:schedule_id/backfill",
  "/v1/schedules/:schedule_id/run",
  "/v1/threads/:thread_id/followups",
];

test("every POST that is served is known to make something with a key, or to make nothing", () => {
  const { app } = engine();
  const paths = new Set(
    app.routes.flatMap(({ method, path }) => (method === "POST" ? [path.replace(/(.)\/$/, "$1")] : [])),
  );
  expect([...paths].sort()).toEqual([...CREATING, ...NOT_CREATING].sort());
});
