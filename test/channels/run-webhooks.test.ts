// Who asked for it is told once that a run is over, however it ended, and whatever dies on the way.
import { randomBytes } from "node:crypto";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { Webhook } from "standardwebhooks";
import { composeLoops } from "../../src/compose-loops.js";
import { ANY_WEBHOOK, whyNot } from "../../src/delivery/channels/run-webhook.js";
import { startStandIn, type StandInRequest, type StandInServer } from "../../src/testing/channels/stand-in.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

const SECRET = `whsec_${randomBytes(32).toString("base64")}`;

const State = Annotation.Root({ ...MessagesAnnotation.spec, how: Annotation<string> });
const graph = new StateGraph(State)
  .addNode("work", async ({ how }) => {
    if (how === "fail") throw new TypeError("it is broken");
    if (how === "ask") interrupt("May I?");
    if (how === "hang") await new Promise((resolve) => setTimeout(resolve, 60_000));
    return { messages: [new AIMessage(`did ${how}`)] };
  })
  .addEdge(START, "work")
  .addEdge("work", END)
  .compile();

type Told = TestEngine &
  Readonly<{
    receiver: StandInServer;
    create(how: string, more?: object): Promise<{ run_id: string; thread_id: string }>;
    /** What the receiver was told of a run. */
    of(runId: string): readonly StandInRequest[];
    deliveries(threadId: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
    /** Starts what tells. */
    deliver(): void;
    post(path: string, body?: unknown): Promise<Response>;
  }>;

async function withReceiver(work: (told: Told) => Promise<void>, options: { loops?: boolean } = {}): Promise<void> {
  const receiver = await startStandIn(() => ({ body: {} }));
  try {
    const graphs = { graphs: { agent: graph }, webhookSecrets: [SECRET], webhookPrivate: true };
    await withEngine({ ...graphs, policies: { agent: { maxAttempts: 1 } } }, async (engine) => {
      const loops = composeLoops(engine.engine, ["deliverer", "scheduler"], { concurrency: 1 });
      const headers = { "content-type": "application/json" };
      const post = async (path: string, body?: unknown) =>
        engine.app.request(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) });
      const deliver = () => void loops.map((loop) => loop.start());
      if (options.loops !== false) deliver();
      try {
        await work({
          ...engine,
          receiver,
          post,
          deliver,
          async create(how, more = {}) {
            const { thread_id: threadId } = (await (await post("/threads")).json()) as { thread_id: string };
            const body = { assistant_id: "agent", input: { how }, webhook: `${receiver.url}/told`, ...more };
            const response = await post(`/threads/${threadId}/runs`, body);
            if (response.status !== 200) throw new Error(await response.text());
            return (await response.json()) as { run_id: string; thread_id: string };
          },
          of: (runId) => receiver.requests.filter(({ body }) => body["run_id"] === runId),
          deliveries: async (threadId) =>
            (await (await engine.app.request(`/v1/deliveries?thread_id=${threadId}`)).json()) as never,
        });
      } finally {
        await Promise.all(loops.map((loop) => loop.stop()));
      }
    });
  } finally {
    await receiver.close();
  }
}

it("each end is told once, signed, with what it came to", async () => {
  await withReceiver(async ({ create, of, deliveries, post, client, app }) => {
    const done = await create("well");
    const failed = await create("fail");
    const asked = await create("ask");
    const stopped = await create("hang");
    await until(
      "it hangs",
      async () => (await client.runs.get(stopped.thread_id, stopped.run_id)).status === "running",
    );
    await client.runs.cancel(stopped.thread_id, stopped.run_id);
    const later = await create("late", { after_seconds: 3_600 });
    await client.runs.cancel(later.thread_id, later.run_id);
    const all = [done, failed, asked, stopped, later];
    await until("all are told", () => all.every(({ run_id: id }) => of(id).length > 0), { timeoutMs: 30_000 });

    const told = (run: { run_id: string }) => {
      const [{ body, headers }, ...again] = of(run.run_id) as [StandInRequest, ...StandInRequest[]];
      expect(again).toEqual([]);
      new Webhook(SECRET).verify(JSON.stringify(body), headers as Record<string, string>);
      return body;
    };
    expect(told(done)).toMatchObject({
      ...{ run_id: done.run_id, thread_id: done.thread_id, status: "success", kwargs: { input: { how: "well" } } },
      values: { how: "well", messages: [{ type: "ai", content: "did well" }] },
      run_started_at: expect.stringMatching(/^\d{4}-/),
      run_ended_at: expect.stringMatching(/^\d{4}-/),
      webhook_sent_at: expect.stringMatching(/^\d{4}-/),
    });
    expect(told(failed)).toMatchObject({
      ...{ status: "error", values: null, error: { error: "TypeError", message: "it is broken" } },
    });
    expect(told(asked)).toMatchObject({ status: "interrupted", values: { __interrupt__: [{ value: "May I?" }] } });
    expect(told(stopped)).toMatchObject({ status: "interrupted", cancel_reason: "cancelled by a client" });
    expect(told(later)).toMatchObject({ status: "interrupted", run_started_at: null });
    expect(await deliveries(done.thread_id)).toMatchObject([
      { source_kind: "webhook", source_id: done.run_id, run_id: done.run_id, channel: "run_webhook", status: "sent" },
    ]);

    // Whoever decides over the API can't say where: the run that goes on is told where the one that asked was.
    const open = (await (await app.request("/v1/approvals")).json()) as readonly { approval_id: string }[];
    const decided = await post(`/v1/approvals/${open[0]?.approval_id}/decide`, { value: "yes" });
    const { run_id: answer } = (await decided.json()) as { run_id: string };
    await until("the answer's run is told", () => of(answer).length === 1);
    expect(told({ run_id: answer })).toMatchObject({
      status: "success",
      values: { messages: [{ content: "did ask" }] },
    });
  });
});

it("a run's end and that it is to be told are one: nobody has to live on for it", async () => {
  await withReceiver(
    async ({ create, of, deps, client, deliver }) => {
      const run = await create("well");
      await until("it is over", async () => (await client.runs.get(run.thread_id, run.run_id)).status === "success");
      const { rows } = await deps.db.query<{ n: number }>(
        "select count(*)::int as n from timers where kind = 'run.webhook' and status = 'due'",
      );
      expect(rows[0]?.n).toBe(1);
      deliver();
      await until("it is told", () => of(run.run_id).length === 1);
    },
    { loops: false },
  );
});

it("a receiver that is away is told again later, of the same message; what it never took can be sent again", async () => {
  await withReceiver(async ({ create, of, deps, receiver, deliveries, post }) => {
    receiver.breaks({ fault: { status: 503, body: "" } });
    const run = await create("well");
    await until("it was tried", () => of(run.run_id).length === 1);
    const due = "update deliveries set next_at = clock_timestamp() where status = 'pending'";
    const waits = async () => {
      const [row] = await deliveries(run.thread_id);
      return row?.["status"] === "pending" && row;
    };
    const first = await until("it waits", waits);
    // In five seconds, the next in five minutes.
    expect(Date.parse(String(first["next_at"])) - Date.now()).toBeLessThan(6_000);
    await deps.db.query(due);
    await until("it was tried again", () => of(run.run_id).length === 2);
    const second = await until("it waits longer", waits);
    expect(Date.parse(String(second["next_at"])) - Date.now()).toBeGreaterThan(4 * 60_000);
    await deps.db.query("update deliveries set refusals = 9");
    await deps.db.query(due);
    await until("it is left to a person", async () => (await deliveries(run.thread_id))[0]?.["status"] === "failed");
    receiver.mends();
    const [dead] = await deliveries(run.thread_id);
    expect((await post(`/v1/deliveries/${String(dead?.["delivery_id"])}/resolve`, { as: "again" })).status).toBe(200);
    await until("it is told", async () => (await deliveries(run.thread_id))[0]?.["status"] === "sent");
    const ids = of(run.run_id).map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids)).toEqual(new Set([dead?.["delivery_id"]]));
  });
});

it("a run without a thread is told of before its thread goes, and one receiver holds up no other", async () => {
  await withReceiver(async ({ post, receiver, deps }) => {
    const isAway = ({ path }: StandInRequest) => path === "/away";
    receiver.breaks({ fault: { status: 503, body: "" }, if: isAway });
    const body = { assistant_id: "agent", input: { how: "well" } };
    await post("/runs", { ...body, webhook: `${receiver.url}/away` });
    const response = await post("/runs/wait", { ...body, webhook: `${receiver.url}/there` });
    expect(await response.json()).toMatchObject({ how: "well" });
    const came = (path: string) => receiver.requests.some((request) => request.path === path);
    await until("both were tried", () => came("/there") && came("/away"));
    await deps.db.query("update timers set due_at = clock_timestamp() where kind = 'thread.delete' and status = 'due'");
    const left = async () => (await deps.db.query("select 1 from threads")).rows.length;
    await until("the thread of which was told is gone", async () => (await left()) === 1);
    receiver.mends();
    await deps.db.query("update deliveries set next_at = clock_timestamp()");
    deps.notifier.notify("deliveries");
    await until("the other was told", async () => {
      const { rows } = await deps.db.query("select 1 from deliveries where status = 'sent'");
      return rows.length === 1;
    });
    await deps.db.query("update timers set due_at = clock_timestamp() where kind = 'thread.delete' and status = 'due'");
    await until("its thread goes, too", async () => (await left()) === 0);
  });
});

it("goes nowhere into one's own network, and only where the installation lets it", async () => {
  const plain = { rules: ANY_WEBHOOK, allowPrivate: false, ownRoutes: null };
  const rules = {
    ...ANY_WEBHOOK,
    requireHttps: true,
    allowedDomains: ["*.example.com", "hook.test"],
    allowedPorts: [443],
  };
  const refused = [
    ...["/mine", "ftp://hook.test/", "nonsense", "http://hook.test/", "https://other.test/", "https://hook.test:8443/"],
    ...["https://example.com.evil.test/", `https://hook.test/${"a".repeat(5_000)}`],
  ];
  for (const url of refused) expect(whyNot(url, { ...plain, rules }), url).toBeTypeOf("string");
  for (const url of ["https://hook.test/x", "https://a.example.com/"])
    expect(whyNot(url, { ...plain, rules })).toBeUndefined();
  const inside = ["http://127.0.0.1/", "http://2130706433/", "http://[::1]/", "http://[::ffff:10.0.0.1]/"];
  for (const url of [...inside, "http://localhost:80/", "http://a.localhost/"]) {
    expect(whyNot(url, plain), url).toMatch(/private network/);
  }
  const ownRoutes = { takes: (path: string) => path === "/done", post: () => Promise.reject(new Error("not asked")) };
  expect(whyNot("/done", { ...plain, ownRoutes })).toBeUndefined();
  expect(whyNot("/other", { ...plain, ownRoutes })).toMatch(/nothing takes a POST at \/other/);
  expect(whyNot("/done", { ...plain, ownRoutes, rules: { ...rules, loopback: false } })).toMatch(/disable_loopback/);
  const off = { ...ANY_WEBHOOK, off: true };
  for (const url of ["/done", "https://hook.test/"])
    expect(whyNot(url, { ...plain, ownRoutes, rules: off })).toMatch(/turned off/);
  await withEngine({ graphs: { agent: graph }, workers: 0 }, async ({ app, deps }) => {
    for (const path of ["/runs", "/runs/stream", "/runs/wait"]) {
      const body = JSON.stringify({ assistant_id: "agent", input: {}, webhook: "http://127.0.0.1:1/" });
      const response = await app.request(path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      expect([response.status, await response.text()]).toEqual([422, expect.stringMatching(/webhook: must not lead/)]);
    }
    expect((await deps.db.query("select 1 from runs")).rows).toEqual([]);
  });
});
