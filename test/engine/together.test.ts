// What comes at the same time shares statements, and what is wrong with one of it is nobody else's.
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const graph = stepsGraph(2, () => {});
const DONE = { log: ["go", "s1", "s2"] };

/** Statements of the database since the last look, by what stands in them. */
function counting({ deps }: TestEngine) {
  const seen: string[] = [];
  const db = deps.db as { query: typeof deps.db.query };
  const { query } = db;
  db.query = (text, values) => {
    seen.push(text);
    return query(text, values);
  };
  return (part: string) => seen.filter((text) => text.includes(part)).length;
}

const statuses = async ({ db }: TestEngine, table: "runs" | "threads") =>
  (await db.db.query<{ status: string; n: number }>(`select status, count(*) as n from ${table} group by 1`)).rows;

test("40 runs that are waited for at once: each has its result, and they share the statements that make, end and read them", async () => {
  // Polls are statements too, and how many there are is up to the machine.
  await withEngine({ graphs: { graph }, concurrency: 40, pollMs: 600_000 }, async (t) => {
    const count = counting(t);
    const results = await Promise.all(
      Array.from({ length: 40 }, () => t.client.runs.wait(null, "graph", { input: { log: ["go"] } })),
    );
    for (const result of results) expect(result).toEqual(DONE);
    expect(await statuses(t, "runs")).toEqual([{ status: "success", n: 40 }]);
    for (const part of [
      "insert into runs",
      "settle_runs",
      "select * from claim_runs",
      "from unnest($2::uuid[], $3::uuid[]) wanted",
    ]) {
      expect(count(part), part).toBeGreaterThan(0);
      expect(count(part), part).toBeLessThan(20);
    }
    expect(count("insert into stream_chunks")).toBeLessThan(20);
  });
});

test("the checkpoint of an input is stored with the next, before the first node begins", async () => {
  const stored: (number | undefined)[] = [];
  let read: () => Promise<number>;
  const steps = stepsGraph(2, async () => void stored.push(await read()));
  await withEngine({ graphs: { steps } }, async (t) => {
    read = async () => (await t.db.db.query("select 1 from checkpoints")).rowCount;
    const count = counting(t);
    expect(await t.client.runs.wait(null, "steps", { input: { log: ["go"] } })).toEqual(DONE);
    expect(count("missingObjects")).toBe(3);
    expect(stored).toEqual([2, 3]);
  });
});

test("a run that ends in the process where it is waited for hands its result over; what else became of it is read", async () => {
  const sum = stepsGraph(2, (node) => {
    if (node === "s2") throw new TypeError("no sum");
  });
  await withEngine({ graphs: { graph, sum, gate: gateGraph([]) }, workers: 0 }, async (t) => {
    t.startWorker({ withApi: true });
    const count = counting(t);
    const { thread_id } = await t.client.threads.create();
    const run = (of: string) => t.client.runs.wait(thread_id, of, { input: { log: ["go"] }, raiseError: false });
    expect(await run("graph")).toEqual(DONE);
    expect(await t.client.runs.wait(null, "graph", { input: { log: ["go"] } })).toEqual(DONE);
    expect(count("from unnest($2::uuid[], $3::uuid[]) wanted")).toBe(0);
    expect(await run("sum")).toEqual({ __error__: { error: "TypeError", message: "no sum" } });
    expect(await run("gate")).toMatchObject({ __interrupt__: [{ value: { question: "q1" } }] });
    expect(count("from unnest($2::uuid[], $3::uuid[]) wanted")).toBe(1);
  });
});

test("runs for one thread that come at once are executed one after the other, in the order they were accepted", async () => {
  await withEngine({ graphs: { graph }, concurrency: 10 }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const ids = Array.from({ length: 8 }, (_, n) => `${n}`);
    await Promise.all(ids.map((id) => t.client.runs.create(thread_id, "graph", { input: { log: [id] } })));
    await until("all to end", async () => (await t.client.threads.get(thread_id)).status === "idle");
    const { rows } = await t.db.db.query<{ status: string }>("select status from runs order by seq");
    expect(rows.map(({ status }) => status)).toEqual(ids.map(() => "success"));
    const { log } = (await t.client.threads.getState<{ log: string[] }>(thread_id)).values;
    expect(log.filter((entry) => !entry.startsWith("s")).sort()).toEqual(ids);
    expect(log).toHaveLength(3 * ids.length);
  });
});

test("of runs that come at once one on a thread that isn't there is refused, and the others are accepted", async () => {
  await withEngine({ graphs: { graph } }, async (t) => {
    const nowhere = crypto.randomUUID();
    const { thread_id } = await t.client.threads.create();
    const results = await Promise.allSettled(
      [thread_id, nowhere, null].map((id) => t.client.runs.wait(id as string, "graph", { input: { log: ["go"] } })),
    );
    expect(results).toMatchObject([
      { status: "fulfilled", value: DONE },
      { status: "rejected", reason: { status: 404 } },
      { status: "fulfilled", value: DONE },
    ]);
  });
});

test("a thread that somebody frozen has locked holds up no run that ends beside it, and its own ends when it is free", async () => {
  let enter = (): void => {};
  const entered = new Promise<void>((resolve) => (enter = resolve));
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const held = stepsGraph(1, () => (enter(), opened));
  await withEngine({ graphs: { graph, held }, concurrency: 10 }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    let thaw = (): void => {};
    const frozen = new Promise<void>((resolve) => (thaw = resolve));
    const { run_id } = await t.client.runs.create(thread_id, "held", { input: { log: ["go"] } });
    await entered;
    const freezing = t.deps.db.tx(async (sql) => {
      await sql.query("select 1 from threads where thread_id = $1 for no key update", [thread_id]);
      open();
      await frozen;
    });
    await opened;
    const others = await Promise.all(
      Array.from({ length: 5 }, () => t.client.runs.wait(null, "graph", { input: { log: ["go"] } })),
    );
    expect(others).toEqual(others.map(() => DONE));
    expect((await t.client.runs.get(thread_id, run_id)).status).toBe("running");
    thaw();
    await freezing;
    await t.client.runs.join(thread_id, run_id);
    expect((await t.client.runs.get(thread_id, run_id)).status).toBe("success");
    expect((await t.client.threads.get(thread_id)).status).toBe("idle");
  });
});

test("with a limit of one run at a time each that ends lets the next one start at once", async () => {
  await withEngine({ graphs: { graph }, concurrency: 10, pollMs: 600_000 }, async (t) => {
    await t.db.db.query("update tenants set max_running = 1");
    const waits = Array.from({ length: 6 }, () => t.client.runs.wait(null, "graph", { input: { log: ["go"] } }));
    expect(await Promise.all(waits)).toEqual(waits.map(() => DONE));
  });
});
