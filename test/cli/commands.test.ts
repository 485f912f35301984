// The commands that look at an installation and answer its questions, on a real one.
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import path from "node:path";
import { Annotation, interrupt, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { answerTo } from "../../src/engine/hitl.js";
import { withEngine } from "../helpers/engine.js";
import { runProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject } from "./project.js";

// A dozen processes are started, one after the other.
const LONG = { timeout: 180_000 };

const SOURCE = `
import { Annotation, interrupt, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ amount: Annotation<number>, answer: Annotation<unknown> });
export const graph = new StateGraph(State)
  .addNode("propose", () => ({ amount: 5 }))
  .addNode("ask", ({ amount }) => ({ answer: interrupt({ refund: amount }) }))
  .addEdge("__start__", "propose")
  .addEdge("propose", "ask");
`;

describe("commands on an installation", () => {
  it("list and show runs, states and timers, and answer a question once", LONG, async () => {
    const cwd = await createProject({ "graph.ts": SOURCE });
    const bodies = `file://${cwd}/bodies`;
    await withEngine({ graphs: { agent: graphHere() }, bodies }, async ({ client, db }) => {
      const env = { DATABASE_URL: db.url, PERDURE_BODIES: bodies };
      const cli = (...args: string[]) => runProcess(args, { cwd, env });
      const asJson = async (...args: string[]) => JSON.parse((await cli(...args, "--json")).stdout) as never;
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "agent", { input: {} });
      const later = await client.runs.create(null, "agent", { input: {}, afterSeconds: 3_600 });
      await until("the question", async () => (await client.runs.get(thread_id, run.run_id)).status === "interrupted");

      expect(await asJson("runs", "ls", "--status", "interrupted")).toMatchObject([
        { run_id: run.run_id, thread_id, graph_id: "agent", waits_for: "approval" },
      ]);
      expect((await cli("runs", "ls")).stdout).toMatch(/^RUN +GRAPH +STATUS +WAITS FOR/);
      expect(await asJson("runs", "show", run.run_id)).toMatchObject({
        run_id: run.run_id,
        events: expect.arrayContaining([expect.objectContaining({ type: "approval.asked" })]) as unknown,
      });
      expect((await cli("limits", "graph", "agent", "7")).stdout).toContain("At most 7 runs of graph agent");
      expect((await cli("limits", "priority", "default", "interactive")).stdout).toContain("interactive at best");
      expect(await asJson("limits", "ls")).toContainEqual(
        expect.objectContaining({ of: "graph", id: "agent", max: 7 }),
      );
      const story = (await cli("runs", "story", run.run_id)).stdout;
      expect(story).toMatch(/begins attempt 1\n[^]*parked: it holds no worker\n[^]*\nNow: waits for an answer for/);
      expect(await asJson("runs", "events", run.run_id)).toContainEqual(
        expect.objectContaining({ type: "checkpoint.stored", attempt: 1 }),
      );
      await db.db.query(
        `insert into effects (tenant_id, key, thread_id, run_id, attempt, call_id, tool, args_hash, kind, policy, status, attempts, task)
        select 'default', repeat(state, 64), $1, $2, 1, gen_random_uuid(), 'pay', sha256(''), 'remote', 'ask', status, 1, ''
        from (values ('a', 'unknown'), ('b', 'succeeded')) given(state, status)`,
        [thread_id, run.run_id],
      );
      const effects = ["effects", "ls", "--run", run.run_id, "--thread", thread_id];
      expect(await asJson(...effects, "--state", "unknown")).toMatchObject([
        { key: "a".repeat(64), status: "unknown" },
      ]);
      expect((await cli(...effects)).stdout).toMatch(/^UPDATED +TOOL +STATUS[^]*pay +unknown +remote +ask +1/);
      expect((await cli("effects", "ls", "--state", "unknwon")).code).toBe(2);
      expect(await asJson("timers", "ls")).toContainEqual(
        expect.objectContaining({ kind: "run.release", ref_id: later.run_id }),
      );
      expect(await asJson("threads", "state", thread_id)).toMatchObject({ values: { amount: 5 }, next: ["ask"] });
      expect(((await asJson("threads", "history", thread_id)) as unknown[]).length).toBeGreaterThan(2);
      expect((await cli("threads", "history", thread_id)).stdout).toContain("ask asks");

      const [approval] = (await asJson("approvals", "ls")) as [{ approval_id: string }];
      expect(approval).toMatchObject({ thread_id, node: "ask", question: { refund: 5 } });
      const answered = await cli("approvals", "approve", approval.approval_id, "--as", "dora");
      expect(answered.output).toContain("goes on with it on thread");
      const twice = await cli("approvals", "reject", approval.approval_id);
      expect(twice.output).toContain(`was decided (true) by dora`);
      expect(twice.code).toBe(1);
      await until("the run after it", async () => (await client.threads.get(thread_id)).status === "idle");
      expect(await asJson("threads", "state", thread_id)).toMatchObject({
        values: { amount: 5, answer: true },
        next: [],
      });

      const unknown = await cli("prune", "--keep-latest", "1", "--graph", "agnet");
      expect(unknown.output).toContain('There is no graph "agnet" and no thread of it; did you mean "agent"?');
      expect(unknown.code).toBe(1);
      const prune = ["prune", "--keep-latest", "1", "--older-than", "104000w"];
      expect((await cli(...prune, "--graph", "agent")).output).toContain("There is nothing to prune.");
    });
  });

  it("show what is left of a run whose error is lost", LONG, async () => {
    const cwd = await createProject();
    const bodies = `file://${cwd}/bodies`;
    const failing = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("fail", () => {
        throw new TypeError("no luck");
      })
      .addEdge("__start__", "fail");
    await withEngine({ graphs: { failing }, bodies }, async ({ client, db, move }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "failing", { input: { n: 1 }, raiseError: false });
      const [run] = await client.runs.list(thread_id);
      await until("the move", async () => (await move()) === 0);
      await rm(path.join(cwd, "bodies/default"), { recursive: true });
      const env = { DATABASE_URL: db.url, PERDURE_BODIES: bodies };
      const { code, output } = await runProcess(["runs", "show", run?.run_id ?? ""], { cwd, env });
      expect(output).toMatch(/^perdure: .*jsonl\.gz is not in the object store/m);
      expect(output).toMatch(/^error +TypeError: no luck$/m);
      expect(output).toContain("run.settled");
      expect(code).toBe(0);
    });
  });

  it("show the runs that wait for a person, retry one, close another, and set budgets and prices", LONG, async () => {
    const cwd = await createProject();
    const bodies = `file://${cwd}/bodies`;
    let broken = true;
    const failing = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("fail", () => {
        if (broken) throw Object.assign(new Error("no luck"), { status: 500 });
        return { n: 2 };
      })
      .addEdge("__start__", "fail");
    const policies = { failing: { maxAttempts: 1 } };
    await withEngine({ graphs: { failing }, bodies, policies }, async ({ client, db }) => {
      const cli = (...args: string[]) =>
        runProcess(args, { cwd, env: { DATABASE_URL: db.url, PERDURE_BODIES: bodies } });
      const start = async () => {
        const { thread_id } = await client.threads.create();
        const { run_id } = await client.runs.create(thread_id, "failing", { input: { n: 1 } });
        await client.runs.join(thread_id, run_id);
        return { thread_id, run_id };
      };
      const [first, second] = [await start(), await start()];
      const inbox = async () => JSON.parse((await cli("runs", "ls", "--needs-attention", "--json")).stdout) as unknown;
      expect(await inbox()).toMatchObject([
        { run_id: second.run_id, needs_attention: { code: "server_error", failures: 1 } },
        { run_id: first.run_id },
      ]);
      broken = false;
      expect((await cli("runs", "retry", first.run_id, "--as", "dora")).output).toContain("goes on for it on thread");
      expect((await cli("runs", "close", second.run_id)).output).toContain("is closed");
      expect(await inbox()).toEqual([]);
      await until("the retry", async () => (await client.threads.get(first.thread_id)).status === "idle");
      expect((await cli("runs", "show", first.run_id)).output).toMatch(/resolved +retried by dora, run /);
      const late = await cli("runs", "retry", second.run_id);
      expect(late).toMatchObject({ code: 1, output: expect.stringContaining("was closed by") as unknown });

      expect((await cli("budgets", "set", "thread", first.thread_id, "--cost", "0.5")).code).toBe(0);
      expect((await cli("budgets", "set", "day", "--tokens", "5")).code).toBe(0);
      expect(JSON.parse((await cli("budgets", "ls", "--json")).stdout)).toMatchObject([
        { scope: "day", tokens: 5 },
        { scope: "thread", ref_id: first.thread_id, cost: 0.5, tokens: null },
      ]);
      expect((await cli("budgets", "set", "run", "x", "--cost", "1")).output).toContain("is not the id of a run");
      const [none, noRun] = [randomUUID(), first.thread_id];
      expect((await cli("budgets", "set", "run", noRun, "--cost", "1")).output).toContain(`There is no run ${noRun}`);
      expect((await cli("budgets", "set", "thread", none, "--cost", "1")).output).toContain(
        `there is no thread ${none}`,
      );
      const refused = await Promise.all([
        cli("budgets", "set", "day"),
        cli("budgets", "set", "thread", first.thread_id, "--steps", "5"),
        cli("budgets", "price", "", "--input", "1", "--output", "1"),
        cli("limits", "graph", "", "5"),
      ]);
      expect(refused.map(({ code }) => code)).toEqual([2, 2, 2, 2]);
      expect((await cli("budgets", "price", "m", "--input", "1", "--output", "2.5")).code).toBe(0);
      expect((await cli("budgets", "prices")).output).toMatch(/^m +1 +2\.5$/m);
    });
  });

  it("say what there is not, with exit code 1", LONG, async () => {
    const cwd = await createProject();
    const bodies = `file://${cwd}/bodies`;
    await withEngine({ graphs: {}, workers: 0, bodies }, async ({ db }) => {
      const env = { DATABASE_URL: db.url, PERDURE_BODIES: bodies };
      const none = "01890000-0000-7000-8000-000000000000";
      for (const [args, message] of [
        [["runs", "show", none], `There is no run ${none}`],
        [["threads", "state", none], `There is no thread ${none}`],
        [["approvals", "approve", none], `There is no approval ${none}`],
      ] as const) {
        const { code, output } = await runProcess(args, { cwd, env });
        expect(output).toContain(message);
        expect(code).toBe(1);
      }
    });
  });

  it("doctor finds a sound installation sound, and names what isn't", LONG, async () => {
    const cwd = await createProject();
    const bodies = `file://${cwd}/bodies`;
    await withEngine({ graphs: {}, workers: 0, bodies }, async ({ db }) => {
      const env = { DATABASE_URL: db.url, PERDURE_BODIES: bodies };
      const sound = await runProcess(["doctor", "--json"], { cwd, env });
      const report = JSON.parse(sound.stdout) as { ok: boolean; checks: { name: string; result: string }[] };
      expect(report.ok).toBe(true);
      expect([...new Set(report.checks.map(({ name }) => name))]).toEqual([
        "database",
        "schema",
        "clock",
        "listen",
        "bodies",
        "graphs",
      ]);
      expect(sound.code).toBe(0);

      await db.db.query("drop table migrations");
      const broken = await createProject({ "graph.ts": "export const other = 1;" });
      const ill = await runProcess(["doctor"], {
        cwd: broken,
        env: { ...env, PERDURE_BODIES: `file://${broken}/graph.ts/bodies` },
      });
      expect(ill.stdout).toMatch(/^fail +schema .*Run `perdure migrate`/m);
      expect(ill.stdout).toMatch(/^fail +bodies /m);
      expect(ill.stdout).toMatch(/^fail +graphs .*does not exist; the file exports other/m);
      expect(ill.code).toBe(1);
    });
  });
});

describe("an answer of yes or no", () => {
  const approve = { kind: "approve" } as const;
  const reject = { kind: "reject", message: null } as const;

  it("takes the shape the question asks for", () => {
    const middleware = { actionRequests: [{ name: "refund" }, { name: "mail" }] };
    expect(answerTo(middleware, approve)).toEqual({ decisions: [{ type: "approve" }, { type: "approve" }] });
    expect(answerTo(middleware, { kind: "reject", message: "too much" })).toEqual({
      decisions: [
        { type: "reject", message: "too much" },
        { type: "reject", message: "too much" },
      ],
    });
    expect(answerTo([{ action_request: {}, config: {} }], approve)).toEqual([{ type: "accept", args: null }]);
    expect(answerTo({ refund: 5 }, approve)).toBe(true);
    expect(answerTo("go on?", reject)).toBe(false);
    expect(answerTo(null, reject)).toBe(false);
  });

  it("with a message needs a question that takes one", () => {
    expect(() => answerTo("go on?", { kind: "reject", message: "no" })).toThrow("give the whole answer with --value");
  });
});

function graphHere() {
  const State = Annotation.Root({ amount: Annotation<number>, answer: Annotation<unknown> });
  return new StateGraph(State)
    .addNode("propose", () => ({ amount: 5 }))
    .addNode("ask", ({ amount }) => ({ answer: interrupt({ refund: amount }) }))
    .addEdge("__start__", "propose")
    .addEdge("propose", "ask");
}
