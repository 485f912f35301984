// P2, P3: commits that were done and whose answer never came: they are asked for again, and count once.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { composeLoops, type Running } from "../../src/compose-loops.js";
import { composeEngine, openParts } from "../../src/compose.js";
import { graphsFrom } from "../../src/engine/graphs.js";
import { createLog } from "../../src/observe/log.js";
import { withEngine } from "../helpers/engine.js";
import { startProxy, through } from "../helpers/proxy.js";
import { size, SOAK_MS } from "../helpers/soak.js";

const RUNS = size(30, 500);
const EVERY = 20;
/** A transaction's end, as the simple query protocol says it. */
const COMMIT = Buffer.from("commit\0");

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

test(
  `${RUNS} runs succeed once although the answer to every 20th commit is lost`,
  async () => {
    let entered = 0;
    const work = (name: string) => () => {
      entered += 1;
      return { log: [name] };
    };
    const graph = new StateGraph(Log)
      .addNode("a", work("a"))
      .addNode("b", work("b"))
      .addNode("c", work("c"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .addEdge("c", END)
      .compile();
    await withEngine({ graphs: { graph }, workers: 0 }, async ({ client, db, engine }) => {
      const proxy = await startProxy(db.url);
      let commits = 0;
      // Statements that are kept prepared are sent by name only: the first time tells which it is.
      let groupCommit: string | undefined;
      proxy.faults.loseReplyTo = (chunk) => {
        if (chunk.includes("insert into checkpoint_writes"))
          groupCommit ??= /perdure_[0-9a-f]{40}/.exec(chunk.toString("latin1"))?.[0];
        const isCommit =
          chunk.includes(COMMIT) ||
          chunk.includes("insert into checkpoint_writes") ||
          (groupCommit !== undefined && chunk.includes(groupCommit));
        if (isCommit) commits += 1;
        return isCommit && commits % EVERY === 0;
      };
      const databaseUrl = through(proxy, db.url);
      const parts = openParts({ databaseUrl, bodies: "memory:", log: createLog("silent"), applicationName: "worker" });
      const { settings } = engine as unknown as { settings: Parameters<typeof composeEngine>[2] };
      const own = composeEngine(parts, graphsFrom({ graph }), { ...settings, databaseUrl, leaseMs: 30_000 });
      const [worker] = composeLoops(own, ["worker"], { concurrency: 6 }) as [Running];
      worker.start();
      try {
        await Promise.all(
          Array.from({ length: RUNS }, async () => {
            const { thread_id } = await client.threads.create();
            expect(await client.runs.wait(thread_id, "graph", { input: { log: ["in"] } })).toEqual({
              log: ["in", "a", "b", "c"],
            });
          }),
        );
      } finally {
        await worker.stop();
        await parts.close();
        await proxy.close();
      }
      expect(proxy.lostReplies()).toBeGreaterThan(RUNS / EVERY / 2);
      expect(entered).toBe(RUNS * 3);
      const count = async (text: string) => (await db.db.query<{ n: number }>(text)).rows[0]!.n;
      expect(await count("select count(*) as n from runs where status = 'success' and attempt = 1")).toBe(RUNS);
      // The input, what the loop made of it, and three steps; a write per node and what each leads to.
      const perThread = "select thread_id, count(*) as n from";
      expect(await count(`select count(distinct n) as n from (${perThread} checkpoints group by 1) x`)).toBe(1);
      expect(await count("select count(*) as n from checkpoints")).toBe(RUNS * 5);
      expect(await count(`select count(distinct n) as n from (${perThread} checkpoint_writes group by 1) x`)).toBe(1);
      expect(
        await count("select count(*) as n from (select 1 from events group by run_id, type having count(*) > 1) twice"),
      ).toBe(0);
      expect(await count("select count(*) as n from events where type = 'run.settled'")).toBe(RUNS);
    });
  },
  SOAK_MS,
);
