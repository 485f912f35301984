// The log of a run: complete, in order, page by page without a gap, and live.
import { expect, test } from "vitest";
import { tellStory } from "../../src/engine/run-story.js";
import { LOG_START, openQuestionsOf, readLog, wholeLog } from "../../src/engine/run-log.js";
import { DEFAULT_TENANT, type RunId } from "../../src/core/ids.js";
import { getRun } from "../../src/runs/runs.js";
import { until } from "../helpers/wait.js";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const engine = sharedEngine({ graphs: { gate, steps }, identityHeaders: true });

type Line = Readonly<{ id: string; type: string; attempt: number; payload: Record<string, unknown>; at: string }>;

async function lines(runId: string, query = ""): Promise<Line[]> {
  const response = await engine().app.request(`/v1/runs/${runId}/events${query}`);
  expect(response.status).toBe(200);
  return (await response.json()) as Line[];
}

async function asked(): Promise<{ threadId: string; runId: string }> {
  const { client } = engine();
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, "gate", { input: { log: ["what nobody else may read"] } });
  await client.runs.join(thread_id, run_id);
  return { threadId: thread_id, runId: run_id };
}

const ASKED = [
  "run.created",
  "run.claimed",
  "checkpoint.stored",
  "checkpoint.stored",
  "checkpoint.stored",
  "run.settled",
  "approval.asked",
];

test("it has all that happened, in order, and nothing of what was said", async () => {
  const { threadId, runId } = await asked();
  const { client, db } = engine();
  const answer = await client.runs.create(threadId, "gate", { command: { resume: "yes" } });
  await client.runs.join(threadId, answer.run_id);
  const log = await lines(runId);
  expect(log.map(({ type }) => type)).toEqual([...ASKED, "approval.decided"]);
  expect(log.at(-1)?.payload).toMatchObject({ decided_by: "api", decided_run_id: answer.run_id });
  expect(JSON.stringify(log)).not.toContain("what nobody");
  // It is what the tables say: a state that a client can be shown has its line.
  const { rows } = await db.db.query<{ id: string }>("select checkpoint_id as id from checkpoints where run_id = $1", [
    runId,
  ]);
  expect(log.flatMap(({ payload }) => payload.checkpoint_id ?? []).sort()).toEqual(rows.map(({ id }) => id).sort());
});

test("page by page it is the same, and what isn't a position is refused", async () => {
  const { runId } = await asked();
  const all = await lines(runId);
  for (const limit of [1, 2, 3]) {
    const pages: Line[] = [];
    for (let after = ""; ; ) {
      const page = await lines(runId, `?limit=${limit}${after && `&after=${after}`}`);
      pages.push(...page);
      if (page.length < limit) break;
      after = page.at(-1)?.id ?? "";
    }
    expect(pages).toEqual(all);
  }
  const { app } = engine();
  for (const query of ["after=x", "after=1", "limit=0", "limit=5000"])
    expect((await app.request(`/v1/runs/${runId}/events?${query}`)).status).toBe(422);
  expect((await app.request(`/v1/runs/${crypto.randomUUID()}/events`)).status).toBe(404);
});

test("a cancelled run says why, and one of a dead worker which attempt that was", async () => {
  const { client, db, deps, sweep } = engine();
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, "gate", { input: { log: [] }, afterSeconds: 3_600 });
  await client.runs.cancel(thread_id, run_id);
  expect((await lines(run_id)).map(({ type, payload }) => [type, payload.reason])).toEqual([
    ["run.created", undefined],
    ["run.cancelled", "cancelled by a client"],
  ]);
  const lost = await client.runs.create(thread_id, "nothing-has-this", { input: {} }).catch(() => undefined);
  expect(lost).toBeUndefined();
  const { runId } = await asked();
  // As a worker that died left it.
  await db.db.query(
    `update runs set status = 'running', head = true, lease_owner = 'dead', finished_at = null, waits_for = null,
      attempt = attempt + 1, lease_expires_at = now() - interval '1 s' where run_id = $1`,
    [runId],
  );
  await sweep();
  deps.notifier.notify("runs");
  await until(
    "the next attempt",
    async () => (await lines(runId)).filter(({ type }) => type === "run.settled").length === 2,
  );
  const types = (await lines(runId)).map(({ type, attempt }) => `${type} ${attempt}`);
  expect(types).toContain("run.lease_lost 2");
  expect(types.indexOf("run.lease_lost 2")).toBeLessThan(types.indexOf("run.claimed 3"));
});

test("its tail is live: what is decided later comes by itself, and it ends when nothing is to come", async () => {
  const { threadId, runId } = await asked();
  const { app, client } = engine();
  const before = await lines(runId);
  const response = await app.request(`/v1/runs/${runId}/events?after=${before[1]?.id}`, {
    headers: { accept: "text/event-stream" },
  });
  expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
  const text = response.text();
  await client.runs.wait(threadId, "gate", { command: { resume: "yes" } });
  const events = [...(await text).matchAll(/^event: (.*)$/gm)].map(([, event]) => event);
  expect(events).toEqual([...ASKED.slice(2), "approval.decided"]);
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, "steps", { input: { log: [] } });
  const whole = await (
    await app.request(`/v1/runs/${run_id}/events`, { headers: { accept: "text/event-stream" } })
  ).text();
  expect(whole).toContain("event: run.settled");
  const ids = [...whole.matchAll(/^id: (.*)$/gm)].map(([, id]) => id);
  expect(ids).toEqual((await lines(run_id)).map(({ id }) => id));
});

test("told as a story it says who, when, how long, and what is waited for", async () => {
  const { threadId, runId } = await asked();
  const { client, deps } = engine();
  const run = await getRun(deps.db, { tenantId: DEFAULT_TENANT, runId: runId as RunId });
  const log = await wholeLog(deps.db, run!);
  expect(await readLog(deps.db, run!, LOG_START, 1_000)).toEqual(log);
  const now = new Date((run!.finishedAt?.getTime() ?? 0) + 3 * 3_600_000 + 60_000);
  const open = await openQuestionsOf(deps.db, run!);
  const story = tellStory(run!, log, { now, open });
  expect(story.title).toContain(`Run ${runId} of graph "gate"`);
  const told = story.lines.map((line) => line.slice(31));
  expect(told[0]).toBe("accepted");
  expect(told[1]).toMatch(/^worker \S+ begins attempt 1$/);
  expect(told[2]).toMatch(/^steps -1 to 1 are stored/);
  expect(told.slice(3, 5)).toEqual(["parked: it holds no worker", expect.stringMatching(/^it asks: [0-9a-f]{32}$/)]);
  expect(story.now).toEqual(["Now: waits for an answer for 3h 1m. perdure approvals ls"]);
  await client.runs.wait(threadId, "gate", { command: { resume: "no" } });
  const answered = tellStory(run!, await wholeLog(deps.db, run!), { now, open: await openQuestionsOf(deps.db, run!) });
  expect(answered.lines.at(-1)).toMatch(/api decided [0-9a-f]{32} \(no\); run \S+ goes on$/);
  expect(answered.now[0]).toMatch(/^Now: over \(interrupted\)/);
});
