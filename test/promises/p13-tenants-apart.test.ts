// P13: one tenant never reads or changes another's anything.
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { registerAssistants } from "../../src/engine/commands/register-assistants.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";

const TENANT_HEADER = "x-test-tenant";

/** The same engine for many tenants: a request is of the tenant it names. */
async function asTenant(t: TestEngine, tenant: string) {
  await t.db.db.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenant]);
  await registerAssistants(t.deps, { tenantId: tenant as TenantId, graphIds: t.engine.graphs.ids });
  const tenantOf = (headers: Headers) => Promise.resolve((headers.get(TENANT_HEADER) ?? "nobody") as TenantId);
  const app = createApp({ ...t.engine, tenantOf });
  const send = (method: string, path: string, body?: unknown) =>
    app.request(path, {
      method,
      headers: { [TENANT_HEADER]: tenant, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  const client = new Client({
    apiUrl: "http://perdure.test",
    defaultHeaders: { [TENANT_HEADER]: tenant },
    callerOptions: { fetch, maxRetries: 0 },
  });
  return { client, send };
}

/** Everything that is stored, but for what workers and timers write by themselves. */
async function snapshot({ db }: TestEngine): Promise<unknown> {
  const tables = ["threads", "runs", "approvals", "checkpoints", "checkpoint_writes", "channel_versions", "assistants"];
  const rows: Record<string, unknown> = {};
  for (const table of tables) {
    rows[table] = (await db.db.query(`select to_jsonb(x) as row from ${table} x order by to_jsonb(x)::text`)).rows;
  }
  return rows;
}

test("with another tenant's ids every route answers 404, and no row changes", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const [alice, bob] = [await asTenant(t, "alice"), await asTenant(t, "bob")];
    const { thread_id } = await alice.client.threads.create({ metadata: { secret: true } });
    await alice.client.runs.wait(thread_id, "graph", { input: { log: ["secret"] } });
    const [run] = await alice.client.runs.list(thread_id);
    const state = await alice.client.threads.getState(thread_id);
    const checkpointId = state.checkpoint.checkpoint_id ?? "";
    const [approval] = (await (await alice.send("GET", "/v1/approvals")).json()) as { approval_id: string }[];
    const thread = `/threads/${thread_id}`;
    const ofRun = `${thread}/runs/${run!.run_id}`;
    const request = { assistant_id: "graph", input: { log: [] } };
    const before = await snapshot(t);
    const requests: (readonly [string, string, unknown?])[] = [
      ["GET", thread],
      ["PATCH", thread, { metadata: { mine: true } }],
      ["DELETE", thread],
      ["GET", `${thread}/state`],
      ["GET", `${thread}/state/${checkpointId}`],
      ["POST", `${thread}/state`, { values: { log: ["x"] } }],
      ["POST", `${thread}/state/checkpoint`, { checkpoint: { checkpoint_id: checkpointId } }],
      ["GET", `${thread}/history`],
      ["POST", `${thread}/history`, {}],
      ["GET", `${thread}/runs`],
      ["POST", `${thread}/runs`, request],
      ["POST", `${thread}/runs/wait`, request],
      ["POST", `${thread}/runs/stream`, request],
      ["POST", `${thread}/runs`, { assistant_id: "graph", command: { resume: "yes" } }],
      ["GET", ofRun],
      ["GET", `${ofRun}/join`],
      ["GET", `${ofRun}/stream`],
      ["GET", `/runs/${run!.run_id}/stream`],
      ["POST", `${ofRun}/cancel`],
      ["GET", `/v1/approvals/${approval!.approval_id}`],
      ["POST", `/v1/approvals/${approval!.approval_id}/decide`, { value: "yes" }],
    ];
    for (const [method, path, body] of requests) {
      const response = await bob.send(method, path, body);
      expect(response.status, `${method} ${path}`).toBe(404);
      expect(await response.text(), `${method} ${path}`).not.toContain("secret");
    }
    expect(await snapshot(t)).toEqual(before);
    expect(await bob.client.threads.search()).toEqual([]);
    expect(await bob.client.threads.search({ ids: [thread_id] })).toEqual([]);
    expect(await (await bob.send("POST", "/threads/count", {})).json()).toBe(0);
    expect(await (await bob.send("GET", "/v1/approvals")).json()).toEqual([]);
  });
});

test("two tenants with threads of the same id: each has its own state, questions and runs, also once they were moved", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: gateGraph(acted) } }, async (t) => {
    const tenants = [await asTenant(t, "alice"), await asTenant(t, "bob")];
    const threadId = "0190a0a0-0000-7000-8000-000000000001";
    for (const [i, { client }] of tenants.entries()) {
      await client.threads.create({ threadId });
      await client.runs.wait(threadId, "graph", { input: { log: [`of ${i}`] } });
    }
    while ((await t.move()) > 0);
    const logs = async () =>
      Promise.all(
        tenants.map(async ({ client }) => (await client.threads.getState<{ log: string[] }>(threadId)).values.log),
      );
    expect(await logs()).toEqual([["of 0"], ["of 1"]]);
    const [alice, bob] = tenants;
    await alice!.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(acted).toEqual(["q1:yes"]);
    expect(await logs()).toEqual([["of 0", "q1:yes", "acted"], ["of 1"]]);
    expect((await bob!.client.threads.get(threadId)).status).toBe("interrupted");
    await alice!.client.threads.delete(threadId);
    expect((await bob!.client.threads.getState<{ log: string[] }>(threadId)).values.log).toEqual(["of 1"]);
    await bob!.client.runs.wait(threadId, "graph", { command: { resume: "no" } });
    expect((await bob!.client.runs.list(threadId)).length).toBe(2);
  });
});
