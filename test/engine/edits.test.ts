// Edits of a state: they hold the thread, and whatever happens to them leaves it usable.
import { expect, test } from "vitest";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { editThread } from "../../src/engine/commands/edit-thread.js";
import { systemAssistantId } from "../../src/assistants/queries.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

async function atGate({ client }: TestEngine): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "graph", { input: { log: [] } });
  return thread_id;
}

/** An edit whose process dies at some point: its lease ends, the sweeper finds it, and only then its work goes on. */
async function dyingEdit(t: TestEngine, threadId: string, stores: boolean): Promise<unknown> {
  const { engine, deps } = t;
  const edit = {
    ...engine.edits,
    once: null,
    tenantId: DEFAULT_TENANT,
    threadId: threadId as ThreadId,
    graphId: "graph",
    assistantId: systemAssistantId("graph"),
  };
  return editThread(deps, edit, async (lease) => {
    const commit = engine.edits.combiner.forLease(lease, new AbortController().signal);
    const nothing = { threadId, nodes: [], values: [], writes: [], checkpoints: [], objects: [], progress: false };
    if (stores) await commit(nothing);
    await t.db.db.query("update runs set lease_expires_at = now() - interval '1 s' where run_id = $1", [lease.runId]);
    expect(await t.sweep()).toBe(1);
    await commit(nothing);
    throw new Error("the fence let a dead edit through");
  });
}

const questions = async ({ db }: TestEngine) =>
  (await db.db.query<{ status: string }>("select status from approvals order by asked_at")).rows.map(
    ({ status }) => status,
  );

const isLost = { code: "lease_lost" };

test("an edit that dies before it stored anything leaves the thread and its question as they were", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: gateGraph(acted) } }, async (t) => {
    const threadId = await atGate(t);
    await expect(dyingEdit(t, threadId, false)).rejects.toMatchObject(isLost);
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    expect(await questions(t)).toEqual(["pending"]);
    await t.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(acted).toEqual(["q1:yes"]);
  });
});

test("an edit that dies after it stored something frees the thread and withdraws what was asked before", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const threadId = await atGate(t);
    await expect(dyingEdit(t, threadId, true)).rejects.toMatchObject(isLost);
    expect((await t.client.threads.get(threadId)).status).toBe("idle");
    expect(await questions(t)).toEqual(["withdrawn"]);
    await t.client.runs.wait(threadId, "graph", { input: { log: ["again"] } });
    expect(await questions(t)).toEqual(["withdrawn", "pending"]);
  });
});

test("a run accepted while an edit dies starts when it is dead", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) } }, async (t) => {
    const threadId = await atGate(t);
    const { engine, deps } = t;
    const edit = {
      ...engine.edits,
      once: null,
      tenantId: DEFAULT_TENANT,
      threadId: threadId as ThreadId,
      graphId: "graph",
      assistantId: systemAssistantId("graph"),
    };
    let runId = "";
    const dead = editThread(deps, edit, async (lease) => {
      runId = (await t.client.runs.create(threadId, "graph", { input: { log: ["next"] } })).run_id;
      await t.db.db.query("update runs set lease_expires_at = now() - interval '1 s' where run_id = $1", [lease.runId]);
      await t.sweep();
      throw new Error("dead");
    });
    await expect(dead).rejects.toThrow("dead");
    expect(await t.client.runs.join(threadId, runId)).toEqual({ log: ["s1", "next", "s1"] });
    expect((await t.client.threads.get(threadId)).status).toBe("idle");
  });
});

test("edits and runs at once: each edit is refused or whole, and no run is held up", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) } }, async (t) => {
    const threadId = await atGate(t);
    const edits = Array.from({ length: 10 }, (_, i) =>
      t.client.threads.updateState(threadId, { values: { log: [`edit ${i}`] }, asNode: "s1" }).then(
        () => [`edit ${i}`],
        (error: { status?: number }) => {
          expect(error.status).toBe(409);
          return [];
        },
      ),
    );
    const inputs = Array.from({ length: 10 }, (_, i) => `run ${i}`);
    const runs = await Promise.all(
      inputs.map((input) => t.client.runs.create(threadId, "graph", { input: { log: [input] } })),
    );
    const done = (await Promise.all(edits)).flat();
    for (const run of runs) await t.client.runs.join(threadId, run.run_id);
    await until("an idle thread", async () => (await t.client.threads.get(threadId)).status === "idle");
    const { values } = await t.client.threads.getState<{ log: string[] }>(threadId);
    const written = values.log.filter((line) => line !== "s1");
    expect(written.sort()).toEqual([...done, ...inputs].sort());
  });
});

test("a failed settling of an edit is tried again while the database is away for a moment", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const threadId = await atGate(t);
    await t.db.db.query(`create sequence failures`);
    await t.db.db.query(
      `create function away() returns trigger language plpgsql as $$
      begin
        if nextval('failures') <= 2 then raise exception 'away' using errcode = '57P03'; end if;
        return new;
      end $$`,
    );
    await t.db.db.query(
      `create trigger away before update on runs for each row when (new.kind = 'edit' and new.status = 'success') execute function away()`,
    );
    await t.client.threads.updateState(threadId, { values: { log: ["edited"] }, asNode: "q1" });
    expect(await questions(t)).toEqual(["withdrawn"]);
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
  });
});
