// Questions that come with more than their text: who may answer, how many, until when, what then, and what a message does meanwhile.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { type Approve, approve } from "../../src/engine/approve.js";
import { type EngineOptions, type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Asks, and does what it asked for if it may. */
function payGraph(paid: string[], settings: Partial<Approve>) {
  return new StateGraph(Log)
    .addNode("ask", () => {
      const { approved, message, details } = approve({ question: "Pay?", details: { amount: 5 }, ...settings });
      if (approved) paid.push(JSON.stringify(details));
      return { log: [approved ? "paid" : `not paid: ${message ?? ""}`] };
    })
    .addNode("later", () => ({ log: ["later"] }))
    .addEdge(START, "ask")
    .addConditionalEdges("ask", () => END, [END, "later"])
    .addEdge("later", END)
    .compile();
}

type Approval = Readonly<{
  approval_id: string;
  interrupt_id: string;
  status: string;
  decision: string | null;
  decided_by: string | null;
  withdrawn_reason: string | null;
  reminded_at: string | null;
  escalated_at: string | null;
  deadline_at: string | null;
}>;
type Asked = TestEngine & Readonly<{ threadId: string; paid: string[] }>;

async function withQuestion(
  settings: Partial<Approve>,
  work: (t: Asked) => Promise<void>,
  options: Partial<EngineOptions> = {},
): Promise<void> {
  const paid: string[] = [];
  await withEngine({ graphs: { pay: payGraph(paid, settings) }, identityHeaders: true, ...options }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.wait(threadId, "pay", { input: { log: [] } });
    await work({ ...t, threadId, paid });
  });
}

const post = (body: unknown, headers: Record<string, string> = {}) => ({
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json", ...headers },
  body: JSON.stringify(body),
});

async function approvals({ app, threadId }: Asked, status = "pending"): Promise<Approval[]> {
  return (await (await app.request(`/v1/approvals?thread_id=${threadId}&status=${status}`)).json()) as Approval[];
}

async function decide(t: Asked, value: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const [approval] = [...(await approvals(t)), ...(await approvals(t, "overdue"))];
  return t.app.request(`/v1/approvals/${approval?.approval_id}/decide`, post({ value }, headers));
}

const by = (person: string, roles = "") => ({ "x-perdure-person": person, "x-perdure-roles": roles });

async function ended({ client, threadId }: Asked): Promise<string[]> {
  await until("the thread to come to rest", async () => (await client.threads.get(threadId)).status === "idle");
  return ((await client.threads.getState(threadId)).values as { log: string[] }).log;
}

/** Moves the clock over the question's timer, as far as the database is concerned. */
async function makeDue({ db, fireTimers }: Asked, kind: string): Promise<void> {
  await db.db.query("update timers set due_at = clock_timestamp() - interval '1 s' where kind = $1", [kind]);
  await fireTimers();
}

async function eventTypes({ db, threadId }: Asked): Promise<string[]> {
  const { rows } = await db.db.query<{ type: string }>("select type from events where thread_id = $1 order by seq", [
    threadId,
  ]);
  return rows.map(({ type }) => type).filter((type) => type.startsWith("approval."));
}

test("only those who may decide: others and callers nobody knows get 403, by whatever door", async () => {
  await withQuestion({ deciders: { people: ["ann"], roles: ["finance"] } }, async (t) => {
    expect((await decide(t, true)).status).toBe(403);
    expect((await decide(t, true, by("bob", "sales"))).status).toBe(403);
    const resume = post({ assistant_id: "pay", command: { resume: true } }, by("bob"));
    expect((await t.app.request(`/threads/${t.threadId}/runs`, resume)).status).toBe(403);
    expect(await approvals(t)).toMatchObject([{ status: "pending" }]);
    expect((await decide(t, true, by("carl", "sales, finance"))).status).toBe(200);
    expect(await ended(t)).toEqual(["paid"]);
    expect(await approvals(t, "decided")).toMatchObject([{ decided_by: "carl", decision: "approve" }]);
  });
});

test("headers say nothing about who asks unless the installation says that they do", async () => {
  const deciders = { people: ["ann"] };
  await withQuestion({ deciders }, async (t) => expect((await decide(t, true, by("ann"))).status).toBe(403), {
    identityHeaders: false,
  });
});

test("two of n: each person counts once, for the same answer; then it goes on, and was decided by both", async () => {
  await withQuestion({ deciders: { roles: ["finance"] }, atLeast: 2 }, async (t) => {
    const said = await decide(t, { type: "approve" }, by("ann", "finance"));
    expect(said.status).toBe(409);
    expect(await said.json()).toMatchObject({ code: "more_votes_needed", details: { votes: ["ann"], needed: 2 } });
    expect((await decide(t, { type: "approve" }, by("ann", "finance"))).status).toBe(409);
    const edited = { type: "edit", details: { amount: 4 } };
    expect((await decide(t, edited, by("bob", "finance"))).status).toBe(409);
    expect(t.paid).toEqual([]);
    expect((await decide(t, edited, by("carl", "finance"))).status).toBe(200);
    expect(await ended(t)).toEqual(["paid"]);
    expect(t.paid).toEqual(['{"amount":4}']);
    expect(await approvals(t, "decided")).toMatchObject([{ decided_by: "bob, carl", decision: "edit" }]);
    expect(await eventTypes(t)).toEqual([
      "approval.asked",
      ...Array<string>(4).fill("approval.voted"),
      "approval.decided",
    ]);
  });
});

test("two of n: who says it in other words, or says why, says the same", async () => {
  await withQuestion({ deciders: { roles: ["finance"] }, atLeast: 2 }, async (t) => {
    expect((await decide(t, true, by("ann", "finance"))).status).toBe(409);
    expect((await decide(t, { approved: true, message: "as agreed" }, by("bob", "finance"))).status).toBe(200);
    expect(await ended(t)).toEqual(["paid"]);
  });
});

test("an answer that can't be meant is refused with 422 by whatever door, is nobody's vote, and the question stays open", async () => {
  await withQuestion({ deciders: { roles: ["finance"] }, atLeast: 2 }, async (t) => {
    const resume = post({ assistant_id: "pay", command: { resume: { ok: 1 } } }, by("ann", "finance"));
    const refused = [
      await decide(t, "later", by("ann", "finance")),
      await t.app.request(`/threads/${t.threadId}/runs`, resume),
    ];
    for (const response of refused) {
      expect(response.status).toBe(422);
      expect(await response.text()).toContain("it stays open");
    }
    expect(await approvals(t)).toMatchObject([{ status: "pending" }]);
    expect(await eventTypes(t)).toEqual(["approval.asked"]);
  });
});

const review = (allowed: readonly (readonly string[])[]) => ({
  actionRequests: allowed.map((_, n) => ({ name: `act ${n}`, args: {} })),
  reviewConfigs: allowed.map((allowedDecisions, n) => ({ actionName: `act ${n}`, allowedDecisions })),
});

/** Asks as LangChain's middleware does. */
function reviewGraph(allowed: readonly (readonly string[])[]) {
  return new StateGraph(Log)
    .addNode("ask", () => ({ log: [JSON.stringify(interrupt(review(allowed)))] }))
    .addEdge(START, "ask")
    .compile();
}

test("a decision that its action doesn't take is refused with 422 and its path by whatever door, and the question stays open", async () => {
  const graphs = { pay: reviewGraph([["approve"], ["approve", "reject"]]) };
  await withQuestion(
    {},
    async (t) => {
      const no = { decisions: [{ type: "reject" }, { type: "reject" }] };
      const inbox = [
        { type: "accept", args: null },
        { type: "edit", args: { action: "act 1", args: {} } },
      ];
      const resume = post({ assistant_id: "pay", command: { resume: inbox } });
      const refused = [await decide(t, no), await t.app.request(`/threads/${t.threadId}/runs`, resume)];
      expect(refused.map(({ status }) => status)).toEqual([422, 422]);
      expect(await refused[0]!.text()).toContain("decisions[0].type: this action takes approve, but not reject");
      expect(await refused[1]!.text()).toContain("[1].type: this action takes approve, reject, but not edit");
      expect(await approvals(t)).toMatchObject([{ status: "pending" }]);
      expect((await decide(t, { decisions: [{ type: "approve" }, { type: "reject" }] })).status).toBe(200);
      expect(await ended(t)).toEqual([JSON.stringify({ decisions: [{ type: "approve" }, { type: "reject" }] })]);
    },
    { graphs },
  );
});

test("at its deadline a question that takes no rejection ends, and one that does is rejected", async () => {
  for (const [allowed, log] of [
    [["approve"], []],
    [["approve", "reject"], [expect.stringContaining("Nobody answered in time.")]],
  ] as const) {
    await withQuestion(
      {},
      async (t) => {
        await makeDue(t, "approval.deadline");
        expect(await ended(t)).toEqual(log);
      },
      { graphs: { pay: reviewGraph([allowed]) }, approvals: { deadline: "1h" } },
    );
  }
});

test("two of n: one that says no is enough", async () => {
  await withQuestion({ atLeast: 2 }, async (t) => {
    expect((await decide(t, { type: "approve" }, by("ann"))).status).toBe(409);
    expect((await decide(t, { type: "reject", message: "too much" }, by("bob"))).status).toBe(200);
    expect(await ended(t)).toEqual(["not paid: too much"]);
  });
});

test("at its deadline a question is rejected once, whoever is up; a later answer gets 409", async () => {
  await withQuestion({ deadline: 60_000, deciders: { people: ["ann"] } }, async (t) => {
    const [open] = await approvals(t);
    expect(open?.deadline_at).not.toBeNull();
    await t.db.db.query("update timers set due_at = clock_timestamp() where kind = 'approval.deadline'");
    await Promise.all([t.fireTimers(), t.fireTimers(), t.fireTimers()]);
    expect(await ended(t)).toEqual(["not paid: Nobody answered in time."]);
    const late = await t.app.request(`/v1/approvals/${open?.approval_id}/decide`, post({ value: true }, by("ann")));
    expect(late.status).toBe(409);
    expect(await late.text()).toContain("deadline");
    expect(await approvals(t)).toEqual([]);
    const { rows } = await t.db.db.query<{ n: number }>("select count(*)::int as n from runs where kind = 'run'");
    expect(rows).toEqual([{ n: 2 }]);
  });
});

test("after its deadline nobody's answer counts any more, also while no scheduler is up to close the question", async () => {
  await withQuestion({ deadline: "1h" }, async (t) => {
    const [open] = await approvals(t);
    const past = "clock_timestamp() - interval '1 s'";
    await t.db.db.query(`update approvals set deadline_at = ${past}`);
    // Nobody is offered what can't be answered; who looks for it finds it.
    expect(await approvals(t)).toEqual([]);
    const [overdue] = await approvals(t, "overdue");
    expect(overdue).toMatchObject({ approval_id: open?.approval_id, status: "pending", overdue: true });
    const late = await decide(t, true);
    expect(late.status).toBe(409);
    expect(await late.json()).toMatchObject({ code: "not_pending", details: { deadline_at: overdue?.deadline_at } });
    const command = { resume: { [open!.interrupt_id]: true } };
    const { status } = await t.app.request(`/threads/${t.threadId}/runs`, post({ assistant_id: "pay", command }));
    expect(status).toBe(409);
    await makeDue(t, "approval.deadline");
    expect(await ended(t)).toEqual(["not paid: Nobody answered in time."]);
    expect(t.paid).toEqual([]);
  });
});

test("a deadline may end the question instead, or go to a node", async () => {
  await withQuestion({ deadline: "1h", onDeadline: "end" }, async (t) => {
    await makeDue(t, "approval.deadline");
    expect(await ended(t)).toEqual([]);
    expect(await t.client.threads.getState(t.threadId)).toMatchObject({ next: [], tasks: [] });
    expect(await approvals(t, "withdrawn")).toMatchObject([{ withdrawn_reason: "Nobody answered in time." }]);
  });
  await withQuestion({ deadline: "1h", onDeadline: { goto: "later" } }, async (t) => {
    await makeDue(t, "approval.deadline");
    expect(await ended(t)).toEqual(["later"]);
    expect(t.paid).toEqual([]);
  });
});

test("marking a question as resolved ends it, as Agent Chat UI does it: nothing is asked again, and the thread goes on", async () => {
  await withQuestion({}, async (t) => {
    await t.client.runs.wait(t.threadId, "pay", { command: { goto: "__end__" } });
    expect(await ended(t)).toEqual([]);
    expect(await approvals(t)).toEqual([]);
    expect((await t.client.threads.get(t.threadId)).interrupts).toEqual({});
    await t.client.runs.wait(t.threadId, "pay", { input: { log: ["again"] } });
    expect(await approvals(t)).toHaveLength(1);
  });
});

test("without a deadline a question waits for ever, and one that was answered has no timers left", async () => {
  await withQuestion({}, async (t) => {
    const timers = "select kind from timers where kind like 'approval.%' and status = 'due'";
    expect((await t.db.db.query(timers)).rows).toEqual([]);
  });
  await withQuestion({ deadline: "1h", remindAfter: "10m" }, async (t) => {
    const timers = "select kind from timers where kind like 'approval.%' and status = 'due' order by kind";
    expect((await t.db.db.query(timers)).rows).toEqual([{ kind: "approval.deadline" }, { kind: "approval.remind" }]);
    await decide(t, true);
    expect((await t.db.db.query(timers)).rows).toEqual([]);
    await ended(t);
  });
});

test("those who may are reminded, and from its escalation on others may decide as well", async () => {
  const settings = {
    remindAfter: "1h",
    escalateAfter: "4h",
    escalateTo: { people: ["boss"] },
    deciders: { people: ["ann"] },
  };
  await withQuestion(settings, async (t) => {
    expect((await decide(t, true, by("boss"))).status).toBe(403);
    await makeDue(t, "approval.remind");
    expect((await approvals(t))[0]?.reminded_at).not.toBeNull();
    expect((await decide(t, true, by("boss"))).status).toBe(403);
    await makeDue(t, "approval.escalate");
    expect((await approvals(t))[0]?.escalated_at).not.toBeNull();
    expect((await decide(t, true, by("boss"))).status).toBe(200);
    expect(await ended(t)).toEqual(["paid"]);
    const kinds = ["asked", "reminded", "escalated", "decided"];
    expect(await eventTypes(t)).toEqual(kinds.map((kind) => `approval.${kind}`));
  });
});

const message = (text: string) => ({ assistant_id: "pay", input: { log: [text] } });

test("a message withdraws the question, visibly, unless it says otherwise", async () => {
  await withQuestion({}, async (t) => {
    const [open] = await approvals(t);
    await t.client.runs.wait(t.threadId, "pay", { input: { log: ["wait, make it 10"] } });
    expect(await approvals(t, "withdrawn")).toMatchObject([
      { approval_id: open?.approval_id, withdrawn_reason: "superseded by a new run" },
    ]);
    const late = await t.app.request(`/v1/approvals/${open?.approval_id}/decide`, post({ value: true }));
    expect(late.status).toBe(409);
    const [asked] = await approvals(t);
    expect(asked?.interrupt_id).not.toBe(open?.interrupt_id);
    expect(t.paid).toEqual([]);
  });
});

test("onMessage refuse: a message gets 409 that names the question, and changes nothing", async () => {
  await withQuestion({ onMessage: "refuse" }, async (t) => {
    const [open] = await approvals(t);
    const refused = await t.app.request(`/threads/${t.threadId}/runs`, post(message("wait")));
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ details: { pending: [open?.interrupt_id] } });
    await decide(t, true);
    expect(await ended(t)).toEqual(["paid"]);
  });
});

test("onMessage queue: messages wait for the answer, in their order, and hold nothing", async () => {
  await withQuestion({ onMessage: "queue" }, async (t) => {
    for (const text of ["one", "two"]) {
      expect((await t.app.request(`/threads/${t.threadId}/runs`, post(message(text)))).status).toBe(200);
    }
    const thread = await t.client.threads.get(t.threadId);
    expect(thread.status).toBe("interrupted");
    expect(await approvals(t)).toHaveLength(1);
    expect(t.paid).toEqual([]);
    await decide(t, true);
    await until("the first message to ask", async () => (await approvals(t)).length === 1 && t.paid.length === 1);
    await decide(t, false);
    await until(
      "the second to ask",
      async () => (await approvals(t, "decided")).length === 2 && (await approvals(t)).length === 1,
    );
    await decide(t, false);
    expect(await ended(t)).toEqual(["paid", "one", "not paid: ", "two", "not paid: "]);
  });
});

test("onMessage queue: a message for later waits as well, when its time comes before the answer", async () => {
  await withQuestion({ onMessage: "queue" }, async (t) => {
    const later = { ...message("later"), after_seconds: 60 };
    expect((await t.app.request(`/threads/${t.threadId}/runs`, post(later))).status).toBe(200);
    await makeDue(t, "run.release");
    const { rows } = await t.db.db.query("select waits_for, head from runs where status = 'pending'");
    expect(rows).toEqual([{ waits_for: "approval", head: false }]);
    expect((await t.client.threads.get(t.threadId)).status).toBe("interrupted");
    expect((await decide(t, true)).status).toBe(200);
    await until("the message to ask", async () => t.paid.length === 1 && (await approvals(t)).length === 1);
    await decide(t, false);
    expect(await ended(t)).toEqual(["paid", "later", "not paid: "]);
  });
});

test("onMessage queue: when the question is withdrawn the messages have their turn", async () => {
  await withQuestion({ onMessage: "queue", deadline: "1h", onDeadline: "end" }, async (t) => {
    await t.app.request(`/threads/${t.threadId}/runs`, post(message("one")));
    await makeDue(t, "approval.deadline");
    await until("the message to ask", async () => (await approvals(t)).length === 1);
    await decide(t, true);
    expect(await ended(t)).toEqual(["one", "paid"]);
  });
});

test("what the project says holds for questions of any graph, by graph over all", async () => {
  const paid: string[] = [];
  const approvalsOf = { deadline: "2h", graphs: { gate: { deciders: { people: ["ann"] } } } };
  await withEngine({ graphs: { gate: gateGraph(paid) }, approvals: approvalsOf }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.wait(thread_id, "gate", { input: { log: [] } });
    const resumed = await t.app.request(
      `/threads/${thread_id}/runs`,
      post({ assistant_id: "gate", command: { resume: "yes" } }),
    );
    expect(resumed.status).toBe(403);
    const listed = (await (await t.app.request("/v1/approvals")).json()) as Approval[];
    expect(listed[0]?.deadline_at).not.toBeNull();
  });
});

test("a setting that can't be meant fails the step that asks, and names it", async () => {
  const graph = payGraph([], { escalateAfter: "1h" });
  await withEngine({ graphs: { pay: graph } }, async ({ client }) => {
    const { thread_id } = await client.threads.create();
    const run = client.runs.wait(thread_id, "pay", { input: { log: [] } });
    await expect(run).rejects.toThrow("escalateAfter and escalateTo belong together");
  });
});
