// Failures that may pass are tried again, three times by default; those that won't end the run; at the cap a person decides.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import type { RunRow } from "../../src/runs/runs.js";
import { getRun } from "../../src/runs/runs.js";
import { DEFAULT_TENANT, type RunId } from "../../src/core/ids.js";
import { askingGraph, HELLO } from "../helpers/asking-graph.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { type Provider, startProvider } from "../helpers/provider.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const LOG = { log: [] };
const failing = (fields: object) => Object.assign(new Error("no"), fields);

async function read(t: TestEngine, run_id: string): Promise<RunRow> {
  const run = await getRun(t.deps.db, { tenantId: DEFAULT_TENANT, runId: run_id as RunId });
  if (run === undefined) throw new Error(`no run ${run_id}`);
  return run;
}

/** As if time had passed: what waits for an instant is due. */
async function pass(t: TestEngine): Promise<void> {
  await t.db.db.query(
    "update timers set due_at = now() - interval '1 s' where status = 'due' and kind = 'run.release'",
  );
  await t.db.db.query("update breakers set open_until = now() - interval '1 s' where open_until is not null");
  await t.fireTimers();
}

const waits = (t: TestEngine, run_id: string) =>
  until("the run to wait", async () => ((await read(t, run_id)).availableAt !== null ? true : null));

async function post(t: TestEngine, path: string, body: object = {}, more: Record<string, string> = {}) {
  const init = {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", accept: "application/json", ...more },
  };
  const response = await t.app.request(path, init);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

test("a step that fails twice in a way that may pass is tried again, and only that step", async () => {
  const entered: string[] = [];
  const graph = stepsGraph(3, (node) => {
    entered.push(node);
    if (node === "s2" && entered.filter((each) => each === "s2").length < 3) throw failing({ status: 500 });
  });
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: LOG });
    for (let n = 1; n <= 2; n += 1) {
      await waits(t, run_id);
      const run = await read(t, run_id);
      expect(run).toMatchObject({ status: "pending", waitsFor: "timer", failures: n, attempt: n, crashes: 0 });
      await pass(t);
    }
    await until("success", async () => ((await read(t, run_id)).status === "success" ? true : null));
    expect(entered).toEqual(["s1", "s2", "s2", "s2", "s3"]);
  });
});

test("at the cap the run waits for a person, with what is known; one retry is accepted, and it goes on where it failed", async () => {
  const entered: string[] = [];
  let broken = true;
  const graph = stepsGraph(3, (node) => {
    entered.push(node);
    if (node === "s2" && broken) throw failing({ code: "ECONNRESET" });
  });
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: LOG });
    for (let n = 1; n <= 2; n += 1) {
      await waits(t, run_id);
      await pass(t);
    }
    const result = await t.client.runs.join(thread_id, run_id);
    expect(result).toMatchObject({ __error__: { error: "Error", message: "no" } });
    expect(entered).toEqual(["s1", "s2", "s2", "s2"]);
    expect(await read(t, run_id)).toMatchObject({ status: "error", waitsFor: "person", failures: 3 });
    expect((await t.client.threads.get(thread_id)).status).toBe("error");
    const record = await (await t.app.request(`/threads/${thread_id}/runs/${run_id}/record`)).json();
    const known = { code: "connection_lost", attempts: 3, failures: 3, last_step: "s2" };
    expect(record).toMatchObject({ status: "error", needs_attention: known });
    const inbox = async () => (await (await t.app.request("/v1/runs?needs_attention=true")).json()) as object[];
    expect(await inbox()).toMatchObject([{ run_id, needs_attention: { code: "connection_lost" } }]);

    broken = false;
    const answers = await Promise.all(Array.from({ length: 5 }, () => post(t, `/v1/runs/${run_id}/retry`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409]);
    const won = answers.find(({ status }) => status === 200)?.body.run_id;
    const lost = answers.find(({ status }) => status === 409)?.body;
    expect(JSON.stringify(lost)).toContain(String(won));
    expect(await t.client.runs.join(thread_id, String(won))).toEqual({ log: ["s1", "s2", "s3"] });
    expect(entered.slice(4)).toEqual(["s2", "s3"]);
    expect(await inbox()).toEqual([]);
    expect((await post(t, `/v1/runs/${run_id}/close`)).status).toBe(409);
    expect((await post(t, `/v1/runs/${String(won)}/retry`)).status).toBe(409);
  });
});

test("closing leaves the run as it is, twice as once; a retry comes too late then", async () => {
  const graph = stepsGraph(1, () => {
    throw failing({ status: 502 });
  });
  await withEngine({ graphs: { graph }, policies: { graph: { maxAttempts: 1 } } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: LOG });
    await t.client.runs.join(thread_id, run_id);
    for (let n = 1; n <= 2; n += 1) expect((await post(t, `/v1/runs/${run_id}/close`)).status).toBe(200);
    expect(await read(t, run_id)).toMatchObject({ status: "error", waitsFor: null, resolved: "closed", attempt: 1 });
    expect((await post(t, `/v1/runs/${run_id}/retry`)).status).toBe(409);
  });
});

test("a run that failed before its first checkpoint is retried with its input; one the thread has left behind isn't", async () => {
  let broken = true;
  const graph = stepsGraph(1, () => {
    if (broken) throw failing({ status: 401 });
  });
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: { log: ["given"] } });
    await t.client.runs.join(thread_id, run_id);
    expect(await read(t, run_id)).toMatchObject({ errorCode: "unauthorized", waitsFor: null, attempt: 1 });
    broken = false;
    const key = { "idempotency-key": "once" };
    const { status, body } = await post(t, `/v1/runs/${run_id}/retry`, { by: "ann" }, key);
    expect(status).toBe(200);
    const same = await post(t, `/v1/runs/${run_id}/retry`, { by: "ann" }, key);
    expect(same).toMatchObject({ status: 200, body: { run_id: body.run_id } });
    expect(await t.client.runs.join(thread_id, String(body.run_id))).toEqual({ log: ["given", "s1"] });

    broken = true;
    const second = await t.client.runs.create(thread_id, "graph", { input: LOG });
    await t.client.runs.join(thread_id, second.run_id);
    broken = false;
    const third = await t.client.runs.create(thread_id, "graph", { input: LOG });
    await t.client.runs.join(thread_id, third.run_id);
    const late = await post(t, `/v1/runs/${second.run_id}/retry`);
    expect(late.status).toBe(409);
    expect(JSON.stringify(late.body)).toContain(third.run_id);
  });
});

test("what won't pass ends the run at once, and says what it is: content, and the step limit (G5)", async () => {
  const long = stepsGraph(1, () => {
    throw failing({ status: 400, code: "context_length_exceeded" });
  });
  await withEngine({ graphs: { long, steps: stepsGraph(5, () => null) } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const first = await t.client.runs.create(thread_id, "long", { input: LOG });
    await t.client.runs.join(thread_id, first.run_id);
    expect(await read(t, first.run_id)).toMatchObject({ status: "error", errorCode: "context_length", attempt: 1 });
    const other = await t.client.threads.create();
    const config = { recursion_limit: 3 };
    const limited = await t.client.runs.create(other.thread_id, "steps", { input: LOG, config });
    await t.client.runs.join(other.thread_id, limited.run_id);
    expect(await read(t, limited.run_id)).toMatchObject({ errorCode: "recursion_limit", attempt: 1, waitsFor: null });
    const more = { input: null, config: { recursion_limit: 20 } };
    expect(await t.client.runs.wait(other.thread_id, "steps", more)).toEqual({ log: ["s1", "s2", "s3", "s4", "s5"] });
  });
});

test("who watches sees each step once, across the attempts of a step that failed", async () => {
  let failures = 0;
  const graph = stepsGraph(2, (node) => {
    if (node === "s2" && failures++ < 1) throw failing({ status: 500, headers: { "retry-after-ms": "20" } });
  });
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const seen: string[] = [];
    const passing = until("a retry", async () => {
      await pass(t);
      return failures > 1;
    });
    for await (const { event, data } of t.client.runs.stream(thread_id, "graph", { input: LOG, streamMode: "updates" }))
      if (event === "updates" || event === "error") seen.push(Object.keys(data).join());
    await passing;
    expect(seen).toEqual(["s1", "s2"]);
  });
});

async function withProvider(work: (provider: Provider) => Promise<void>): Promise<void> {
  const provider = await startProvider();
  try {
    await work(provider);
  } finally {
    await provider.close();
  }
}

const RUNS = 30;

test("a provider that is away for 20 minutes: all runs finish, no failure is counted, and slots are free meanwhile", async () => {
  await withProvider(async (provider) => {
    provider.break({ status: 503 });
    const entered: string[] = [];
    const graphs = { asks: askingGraph(provider.url, (node) => entered.push(node)), other: stepsGraph(2, () => null) };
    await withEngine({ graphs, concurrency: 4 }, async (t) => {
      const start = async () => {
        const { thread_id } = await t.client.threads.create();
        return t.client.runs.create(thread_id, "asks", { input: HELLO });
      };
      const runs = await Promise.all(Array.from({ length: RUNS }, start));
      const waiting = async () => {
        const { rows } = await t.db.db.query<{ n: number }>(
          "select count(*) as n from runs where status = 'pending' and waits_for = 'provider' and available_at is not null",
        );
        return rows[0]?.n;
      };
      await until("all to wait", async () => (await waiting()) === RUNS);
      const before = provider.asked();
      // Ten slots or four, however many want to: those that come later aren't even started.
      expect(before).toBeLessThan(RUNS);
      for (let minute = 0; minute < 20; minute += 1) {
        await pass(t);
        await until("one trial, and all wait again", async () => (await waiting()) === RUNS);
        expect(provider.asked()).toBeLessThanOrEqual(before + minute + 1);
      }
      expect(provider.asked()).toBeGreaterThanOrEqual(before + 10);
      const { thread_id } = await t.client.threads.create();
      expect(await t.client.runs.wait(thread_id, "other", { input: LOG })).toEqual({ log: ["s1", "s2"] });

      provider.break(undefined);
      for (const { run_id } of runs) {
        await until("success", async () => {
          const run = await read(t, run_id);
          if (run.status !== "success") await pass(t);
          return run.status === "success";
        });
        expect(await read(t, run_id)).toMatchObject({ failures: 0, crashes: 0 });
      }
      expect(provider.answered()).toBe(RUNS);
      expect(entered.filter((node) => node === "before")).toHaveLength(RUNS);
      const { rows } = await t.db.db.query("select * from breakers");
      expect(rows).toEqual([]);
    });
  });
}, 120_000);

test("an outage longer than the patience goes to a person, who can retry when it is over", async () => {
  await withProvider(async (provider) => {
    await provider.close();
    await withEngine({ graphs: { asks: askingGraph(provider.url) } }, async (t) => {
      const { thread_id } = await t.client.threads.create();
      const { run_id } = await t.client.runs.create(thread_id, "asks", { input: HELLO });
      await waits(t, run_id);
      expect(await read(t, run_id)).toMatchObject({ waitsFor: "provider", provider: new URL(provider.url).host });
      await t.db.db.query("update runs set outage_since = outage_since - interval '1 day'");
      await pass(t);
      await t.client.runs.join(thread_id, run_id);
      expect(await read(t, run_id)).toMatchObject({
        status: "error",
        waitsFor: "person",
        errorCode: "unreachable",
        failures: 0,
      });
    });
  });
});

test("a run that waits for a provider can be cancelled, and is not asked to try again", async () => {
  await withProvider(async (provider) => {
    provider.break({ status: 429, type: "rate_limit_error", headers: { "retry-after": "120" } });
    await withEngine({ graphs: { asks: askingGraph(provider.url) } }, async (t) => {
      const { thread_id } = await t.client.threads.create();
      const { run_id } = await t.client.runs.create(thread_id, "asks", { input: HELLO });
      await waits(t, run_id);
      const { availableAt } = await read(t, run_id);
      expect((availableAt?.getTime() ?? 0) - Date.now()).toBeGreaterThan(100_000);
      await t.client.runs.cancel(thread_id, run_id);
      await pass(t);
      expect(await read(t, run_id)).toMatchObject({ status: "interrupted", availableAt: null });
      expect(provider.asked()).toBe(1);
    });
  });
});

/** Calls what its input names; a provider that is away is one that a port refuses. */
function twoProviders(away: Set<string>, calls: string[], instead: () => Promise<void> = () => Promise.resolve()) {
  const State = Annotation.Root({ calls: Annotation<string>(), log: Annotation<string[]>() });
  return new StateGraph(State)
    .addNode("call", async ({ calls: name }) => {
      calls.push(name);
      await instead();
      if (away.has(name)) throw failing({ code: "ECONNREFUSED", address: name, port: 443 });
      return { log: [name] };
    })
    .addEdge(START, "call")
    .addEdge("call", END)
    .compile();
}

test("of two providers of one graph that are away, the one that comes back is not held up by the other", async () => {
  const away = new Set(["one.test", "two.test"]);
  await withEngine({ graphs: { graph: twoProviders(away, []) } }, async (t) => {
    const start = async (calls: string) => {
      const { thread_id } = await t.client.threads.create();
      return t.client.runs.create(thread_id, "graph", { input: { calls } });
    };
    // What the process knows of the graph is that it failed without "two", after it had failed without "one".
    const runs = [await start("one.test"), await start("one.test"), await start("two.test")];
    for (const { run_id } of runs) await waits(t, run_id);
    const [two, ...ones] = runs.map(({ run_id }) => run_id).reverse();
    const open = "case when provider like 'two%' then interval '1 h' else '-1 s' end";
    await t.db.db.query(`update breakers set open_until = clock_timestamp() + ${open}`);
    away.delete("one.test");
    await t.db.db.query("update timers set due_at = clock_timestamp() where kind = 'run.release'");
    for (const run_id of ones) {
      await until("those that call what is back", async () => {
        await t.fireTimers();
        return (await read(t, run_id)).status === "success";
      });
    }
    expect(await read(t, two!)).toMatchObject({ status: "pending", provider: "two.test:443", attempt: 1 });
  });
});

test("when the run that tries a provider ends without having tried, another one tries at once", async () => {
  const away = new Set(["one.test"]);
  const entered: string[] = [];
  let hangs = false;
  const instead = () => (hangs ? new Promise<void>(() => undefined) : Promise.resolve());
  await withEngine({ graphs: { graph: twoProviders(away, entered, instead) } }, async (t) => {
    const runs: { thread_id: string; run_id: string }[] = [];
    for (let i = 0; i < 4; i += 1) {
      const { thread_id } = await t.client.threads.create();
      runs.push(await t.client.runs.create(thread_id, "graph", { input: { calls: "one.test" } }));
    }
    for (const { run_id } of runs) await waits(t, run_id);
    const before = entered.length;
    hangs = true;
    await pass(t);
    await until("a trial", () => entered.length === before + 1);
    const { rows } = await t.db.db.query<{ trial_run_id: string }>("select trial_run_id from breakers");
    const trial = runs.find(({ run_id }) => run_id === rows[0]?.trial_run_id);
    [hangs] = [false];
    away.clear();
    await t.client.runs.cancel(trial!.thread_id, trial!.run_id);
    await until("the others", async () => {
      await t.fireTimers();
      const { rows } = await t.db.db.query("select 1 from runs where status = 'success'");
      return rows.length === 3;
    });
  });
});
