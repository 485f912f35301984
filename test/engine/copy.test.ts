// L4: a copy owns what it needs, a fork shares within its thread, tenants share nothing, and no row leads to another's objects.
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { DEFAULT_TENANT, type TenantId, type ThreadId } from "../../src/core/ids.js";
import { copyThread } from "../../src/engine/commands/copy-thread.js";
import { registerAssistants } from "../../src/engine/commands/register-assistants.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { longGraph, longThread, seen } from "../helpers/long-thread.js";
import { expectNoDanglingPointer, objectsOf } from "../helpers/moved.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";

const keyOf = (threadId: string) => ({ tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
const TEXT = "the same text in two tenants ".repeat(100);

/** A client of a tenant, in a process that holds nothing in memory yet. */
function clientOf({ engine, deps }: TestEngine, tenantId: TenantId = DEFAULT_TENANT): Pick<TestEngine, "client"> {
  const packs = createPackReader(deps.bodies);
  const bodyReader = createBodyReader({ sql: deps.db, bodies: deps.bodies, packs, cacheBytes: 1 << 20 });
  const app = createApp({ ...engine, bodyReader, tenantOf: () => Promise.resolve(tenantId) });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return { client: new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } }) };
}

test("a copy reads fully after the original was deleted and swept, and goes on, moved, half moved or not", async () => {
  await withEngine({ graphs: { long: longGraph() } }, async (t) => {
    const long = await longThread(t, 30);
    const before = [await seen(t, long.threadId, long.main), await seen(t, long.threadId, long.fork)];
    const copies = [await t.client.threads.copy(long.threadId)];
    await moveThread(t.deps, keyOf(long.threadId), { packBytes: 20_000, maxPacks: 2 });
    copies.push(await t.client.threads.copy(long.threadId));
    await moveThread(t.deps, keyOf(long.threadId), { packBytes: 20_000 });
    copies.push(await t.client.threads.copy(long.threadId));
    expect((await t.client.threads.get(long.threadId)).status).toBe("interrupted");
    expect(copies[2]).toMatchObject({ status: "idle", metadata: { graph_id: "long" } });

    await t.client.threads.delete(long.threadId);
    await sweepOrphans(t.deps, { graceMs: 0 });
    expect(await objectsOf(t.deps, keyOf(long.threadId))).toEqual([]);
    const cold = clientOf(t);
    for (const { thread_id } of copies) {
      expect([await seen(cold, thread_id, long.main), await seen(cold, thread_id, long.fork)]).toEqual(before);
      await expectNoDanglingPointer(t.deps, keyOf(thread_id));
      await moveThread(t.deps, keyOf(thread_id));
      // The question stayed with the original: a run without input asks it anew.
      await t.client.runs.wait(thread_id, "long", { input: null });
      expect(await t.client.runs.wait(thread_id, "long", { command: { resume: "yes" } })).toMatchObject({
        answer: "yes",
      });
    }
    const { thread_id: last } = copies[2]!;
    await t.client.threads.delete(last);
    expect(await objectsOf(t.deps, keyOf(last))).toEqual([]);
  });
});

test("a copy that fails or dies leaves no thread, and its objects are swept", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.wait(thread_id, "steps", { input: { log: [TEXT] } });
    await moveThread(t.deps, keyOf(thread_id));
    const dies = (step: string) => {
      if (step === "uploaded") throw new Error("dead");
    };
    const input = { ...keyOf(thread_id), ...t.engine.edits, once: null };
    await expect(copyThread(t.deps, { ...input, reached: dies })).rejects.toThrow("dead");
    expect(await t.client.threads.search()).toHaveLength(1);
    expect((await t.client.threads.get(thread_id)).status).toBe("idle");
    expect(await sweepOrphans(t.deps, { graceMs: 0 })).toBe(1);
    // What moves while it is copied is copied as well.
    await t.client.runs.wait(thread_id, "steps", { input: { log: ["more"] } });
    let moved = false;
    const moves = async (step: string) => {
      if (step === "uploaded" && !moved) moved = (await moveThread(t.deps, keyOf(thread_id))).packs > 0;
    };
    const { thread: copy } = await copyThread(t.deps, { ...input, reached: moves });
    expect(moved).toBe(true);
    await t.client.threads.delete(thread_id);
    expect((await clientOf(t).client.threads.getState<{ log: string[] }>(copy.threadId)).values.log).toHaveLength(8);
    await expect(t.client.threads.copy(thread_id)).rejects.toMatchObject({ status: 409 });
  });
});

test("tenants share no object, and no pointer leads from one to another's", async () => {
  await withEngine({ graphs: { steps: stepsGraph(1, () => {}) } }, async (t) => {
    const threads: string[] = [];
    for (const tenant of ["alice", "bob"] as TenantId[]) {
      await t.db.db.query("insert into tenants (tenant_id) values ($1)", [tenant]);
      await registerAssistants(t.deps, { tenantId: tenant, graphIds: t.engine.graphs.ids });
      const { client } = clientOf(t, tenant);
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "steps", { input: { log: [TEXT] } });
      await moveThread(t.deps, { tenantId: tenant, threadId: thread_id as ThreadId });
      threads.push(thread_id);
    }
    const [alices = "", bobs = ""] = threads;
    const keys = (await t.db.db.query<{ tenant_id: string; key: string; pack_id: string }>("select * from packs")).rows;
    for (const { tenant_id, key } of keys) expect(key.startsWith(`${tenant_id}/`)).toBe(true);
    const ofBob = keys.find(({ tenant_id }) => tenant_id === "bob")!;
    const hashes = await t.db.db.query<{ hash: Buffer }>("select hash from bodies where thread_id = $1", [bobs]);
    const hash = hashes.rows[0]!.hash;
    // A row of alice that names bob's pack, or bob's object, can't be written.
    await expect(
      t.db.db.query("update checkpoints set pack_id = $1 where thread_id = $2", [ofBob.pack_id, alices]),
    ).rejects.toMatchObject({ code: "23503" });
    await expect(
      t.db.db.query("update packs set key = $1 where tenant_id = 'alice'", [ofBob.key]),
    ).rejects.toMatchObject({ code: "23514" });
    // What looks like a pointer in her input is data.
    const forged = { $: "s", h: hash.toString("base64url") };
    const { client } = clientOf(t, "alice" as TenantId);
    await client.runs.wait(alices, "steps", { input: { log: [forged] } });
    await moveThread(t.deps, { tenantId: "alice" as TenantId, threadId: alices as ThreadId });
    const { values } = await clientOf(t, "alice" as TenantId).client.threads.getState<{ log: unknown[] }>(alices);
    expect(values.log).toContainEqual(forged);
    await expect(client.threads.copy(bobs)).rejects.toMatchObject({ status: 409 });
    await clientOf(t, "bob" as TenantId).client.threads.delete(bobs);
    expect(
      (await clientOf(t, "alice" as TenantId).client.threads.getState<{ log: unknown[] }>(alices)).values.log,
    ).toContain(TEXT);
  });
});

test("threads.prune keeps the latest state, or deletes, and a damaged thread stops no other", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async ({ client, deps }) => {
    const damaged = await client.threads.create();
    await client.runs.wait(damaged.thread_id, "steps", { input: { log: [TEXT] } });
    await moveThread(deps, keyOf(damaged.thread_id));
    await deps.bodies.delete(await objectsOf(deps, keyOf(damaged.thread_id)));
    const ids: string[] = [damaged.thread_id];
    for (const log of [["a"], ["b"]]) {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "steps", { input: { log } });
      ids.push(thread_id);
    }
    expect(await client.threads.prune(ids, { strategy: "keep_latest" })).toEqual({ pruned_count: 2 });
    ids.shift();
    expect(await client.threads.getHistory(ids[0]!)).toHaveLength(1);
    expect(await client.threads.prune(ids, { strategy: "keep_latest" })).toEqual({ pruned_count: 0 });
    expect(await client.threads.prune(ids.slice(0, 1))).toEqual({ pruned_count: 1 });
    await expect(client.threads.get(ids[0]!)).rejects.toMatchObject({ status: 404 });
    expect((await client.threads.getState<{ log: string[] }>(ids[1]!)).values.log).toEqual(["b", "s1", "s2", "s3"]);
  });
});
