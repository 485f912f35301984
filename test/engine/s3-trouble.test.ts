// L3: an S3 server that slows down, goes away, resets, refuses checksums. A run on a moved thread succeeds in its first attempt, no
// node is entered twice, and afterwards the objects are exactly those that rows name.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import {
  type Fault,
  failsWith,
  NO_FAULT,
  refusesChecksums,
  resetsHalfway,
  startStubS3,
  type StubS3,
} from "../helpers/stub-s3.js";
import { until } from "../helpers/wait.js";

/** The case says a minute, which would be most of the suite's time. */
const DOWN_MS = process.env["PERDURE_TEST_FULL"] === "1" ? 60_000 : 2_500;

const PATIENCE_MS = DOWN_MS * 2 + 60_000;

let s3: StubS3;
beforeAll(async () => {
  s3 = await startStubS3();
});
afterAll(() => s3.close());
afterEach(() => {
  s3.fault.now = NO_FAULT;
  vi.unstubAllEnvs();
});

const Note = Annotation.Root({ note: Annotation<string>(), seen: Annotation<string>() });
const long = (name: string, chars = 3_000) => `${name} ${"x".repeat(chars)}`;

function noteGraph(entered: string[]) {
  const enter = (node: string) => (state: typeof Note.State) => {
    entered.push(`${node} ${state.note.split(" ")[0]}`);
    return { seen: node };
  };
  return new StateGraph(Note)
    .addNode("look", enter("look"))
    .addNode("think", enter("think"))
    .addEdge(START, "look")
    .addEdge("look", "think")
    .addEdge("think", END)
    .compile();
}

async function moveAll(t: TestEngine): Promise<void> {
  const isMoved = async () => {
    await t.deps.db.query("update timers set due_at = now() where kind = 'move' and status = 'due'");
    await t.move();
    const { rows } = await t.deps.db.query("select 1 from timers where kind = 'move' and status = 'due'");
    return rows.length === 0;
  };
  await until("everything is moved", isMoved, { timeoutMs: PATIENCE_MS });
}

async function onMovedThread(
  work: (t: TestEngine, threadId: string, entered: string[]) => Promise<void>,
): Promise<void> {
  vi.stubEnv("AWS_ENDPOINT_URL_S3", s3.endpoint);
  vi.stubEnv("AWS_REGION", "us-east-1");
  vi.stubEnv("AWS_ACCESS_KEY_ID", "key");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  s3.objects.clear();
  const entered: string[] = [];
  await withEngine({ graphs: { note: noteGraph(entered) }, bodies: "s3://bucket", workers: 0 }, async (t) => {
    const first = t.startWorker();
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.wait(thread_id, "note", { input: { note: long("first") } });
    await moveAll(t);
    // The next worker has read nothing yet.
    await first.stop();
    t.startWorker();
    entered.length = 0;
    await work(t, thread_id, entered);
    // What lies there is what rows name: nothing twice, nothing left over.
    await moveAll(t);
    const { rows } = await t.deps.db.query<{ key: string; status: string }>("select key, status from packs");
    expect(rows.every(({ status }) => status === "stored")).toBe(true);
    expect([...s3.objects.keys()].sort()).toEqual(rows.map(({ key }) => key).sort());
  });
}

/** A run with a body over a megabyte, then a move; both under the fault. */
async function runsThrough(t: TestEngine, threadId: string, entered: string[], fault: () => Fault): Promise<void> {
  s3.fault.now = fault();
  const run = await t.client.runs.create(threadId, "note", { input: { note: long("second", 1_500_000) } });
  const ended = async () => {
    const { status } = await t.client.runs.get(threadId, run.run_id);
    return status !== "pending" && status !== "running";
  };
  await until("the run is finished", ended, { timeoutMs: PATIENCE_MS });
  const { rows } = await t.deps.db.query("select status, attempt, crashes from runs where run_id = $1", [run.run_id]);
  expect(rows).toEqual([{ status: "success", attempt: 1, crashes: 0 }]);
  expect(entered).toEqual(["look second", "think second"]);
  s3.fault.now = fault();
  await moveAll(t);
  expect(
    ((await t.client.threads.getState(threadId)).values as { note: string }).note === long("second", 1_500_000),
  ).toBe(true);
}

const times = (n: number, fault: Fault): Fault => {
  let left = n;
  return (asked) => left > 0 && fault(asked) && (left--, true);
};

test.each<[string, () => Fault]>([
  ["answers 503 three times", () => times(3, failsWith(503, "SlowDown"))],
  ["answers 500 three times", () => times(3, failsWith(500, "InternalError"))],
  ["resets after half of each body, three times", () => times(3, resetsHalfway(s3.objects))],
  ["refuses checksum headers with 501", () => refusesChecksums],
  ["answers HEAD with 503 and no body", () => (asked) => asked.method === "HEAD" && failsWith(503, "SlowDown")(asked)],
])("a server that %s costs nothing but time", async (_, fault) => {
  await onMovedThread((t, threadId, entered) => runsThrough(t, threadId, entered, fault));
});

test(
  `a server that is down for ${DOWN_MS / 1_000} s is waited for with the lease, and running chats don't need it`,
  async () => {
    await onMovedThread(async (t, threadId, entered) => {
      const other = (await t.client.threads.create()).thread_id;
      let isUp = false;
      const down =
        (): Fault =>
        ({ request }) =>
          !isUp && (request.socket.destroy(), true);
      let ended = false;
      const running = runsThrough(t, threadId, entered, down).finally(() => (ended = true));
      // A thread of which nothing was moved goes on meanwhile: it comes back only when that one has ended.
      await Promise.all([t.client.runs.wait(other, "note", { input: { note: long("other") } }), sleep(DOWN_MS)]);
      expect(ended).toBe(false);
      entered.splice(0, entered.length, ...entered.filter((node) => !node.endsWith("other")));
      isUp = true;
      await running;
    });
  },
  PATIENCE_MS * 2,
);
