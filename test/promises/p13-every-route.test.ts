// P13: the matrix of every route that is served and every id that a request can name, with another tenant's ids.
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { registerAssistants } from "../../src/engine/commands/register-assistants.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import {
  bodyFor,
  everything,
  FOLLOWUP,
  type Ids,
  pathWith,
  rowsOf,
  RUN,
  SCHEDULE,
  type Send,
  servedRoutes,
  type Side,
} from "../helpers/every-route.js";
import { gateGraph } from "../helpers/scripted-graphs.js";

const HEADER = "x-test-tenant";
async function sideOf(t: TestEngine, tenantId: string): Promise<Side> {
  await t.db.db.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenantId]);
  await registerAssistants(t.deps, { tenantId: tenantId as TenantId, graphIds: t.engine.graphs.ids });
  const app = createApp({
    ...t.engine,
    tenantOf: (headers: Headers) => Promise.resolve((headers.get(HEADER) ?? "nobody") as TenantId),
  });
  const send: Send = async (method, path, body, headers = {}) => {
    const response = await app.request(path, {
      method,
      headers: { [HEADER]: tenantId, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  const client = new Client({
    apiUrl: "http://perdure.test",
    defaultHeaders: { [HEADER]: tenantId },
    callerOptions: { fetch, maxRetries: 0 },
  });
  return { send, client };
}

async function apart(work: (t: TestEngine, alice: Side, bob: Side, ids: Ids) => Promise<void>): Promise<void> {
  const acted: string[] = [];
  // Nobody moves, schedules or delivers here: a row that changes was changed by a request.
  await withEngine({ graphs: { graph: gateGraph(acted) }, moveAfterMs: 3_600_000 }, async (t) => {
    const [alice, bob] = [await sideOf(t, "alice"), await sideOf(t, "bob")];
    const ids = await everything(t, "alice", alice);
    const before = await rowsOf(t, "alice");
    await work(t, alice, bob, ids);
    expect(await rowsOf(t, "alice")).toEqual(before);
    expect(acted).toEqual([]);
  });
}

test("every route that is served answers 404 to another tenant's ids, and tells and changes nothing", async () => {
  await apart(async (t, alice, bob, ids) => {
    const app = createApp(t.engine);
    const served = servedRoutes(app);
    let asked = 0;
    for (const route of served) {
      const [method = "", pattern = ""] = route.split(" ");
      // Prices have models' names, the same for each.
      if (pattern.startsWith("/v1/prices/")) continue;
      // Waits for a thread with this id that may come, one of his own: test/api/protocol.test.ts.
      if (pattern.endsWith("/stream/events")) continue;
      const path = pathWith(pattern, ids);
      const { status, text } = await bob.send(method, path, bodyFor(method, pattern, ids));
      asked += 1;
      if (method === "PUT" && pattern.startsWith("/v1/budgets/")) {
        // It may hold for a thread that comes: one of his own.
        expect([status, JSON.parse(text)], route).toMatchObject([200, { exists: false }]);
        expect((await alice.send("GET", path)).text, route).toContain('"cost":7');
        continue;
      }
      if (pattern.endsWith("/commands")) {
        // What can't be done is told in the answer.
        expect([status, JSON.parse(text)], route).toMatchObject([200, { type: "error", error: "no_such_run" }]);
        expect(text, route).not.toMatch(/secret/);
        continue;
      }
      // Stock servers answer a copy of what isn't there with 409.
      expect(`${route}: ${status} ${text}`).toMatch(`${route}: ${pattern.endsWith("/copy") ? 409 : 404}`);
      expect(text, route).not.toMatch(/secret/);
    }
    expect(asked).toBeGreaterThanOrEqual(50);
  });
});

test("ids of another tenant in bodies and queries name nothing, lists and counts leave out what is theirs", async () => {
  await apart(async (t, _alice, bob, ids) => {
    const { client, send } = bob;
    const { thread_id: own } = await client.threads.create();
    await client.runs.wait(own, "graph", { input: { log: ["of bob"] } });
    const { thread_id, run_id, checkpoint_id, conversation_id, contact_id, channel_account_id } = ids;
    const refused: (readonly [string, string, unknown])[] = [
      ["POST", `/threads/${own}/runs`, { ...RUN, checkpoint_id }],
      ["POST", `/threads/${own}/runs/wait`, { ...RUN, checkpoint: { thread_id, checkpoint_ns: "", checkpoint_id } }],
      ["POST", `/threads/${own}/state`, { values: { log: ["x"] }, checkpoint_id }],
      ["POST", `/threads/${own}/state/checkpoint`, { checkpoint: { checkpoint_id } }],
      ["GET", `/threads/${own}/state/${checkpoint_id}`, undefined],
      ["GET", `/threads/${own}/runs/${run_id}`, undefined],
      ["GET", `/threads/${own}/runs/${run_id}/join`, undefined],
      ["GET", `/threads/${own}/runs/${run_id}/stream`, undefined],
      ["POST", `/threads/${own}/runs/${run_id}/cancel`, {}],
      ["DELETE", `/threads/${own}/runs/${run_id}`, undefined],
      ["POST", `/v1/threads/${own}/followups`, { ...FOLLOWUP, conversation_id }],
      ["PUT", "/v1/conversations", { channel_account_id, thread_id: own, address: { chat_id: 8 } }],
      ["POST", "/v1/contacts", { key: "k", conversation_ids: [conversation_id] }],
      ["POST", "/v1/suppressions", { conversation_id }],
      ["POST", "/v1/schedules", { ...SCHEDULE, audience: { contacts: [contact_id] } }],
      ["POST", "/v1/schedules", { ...SCHEDULE, audience: { conversations: [conversation_id] } }],
      ["POST", "/v1/schedules", { ...SCHEDULE, audience: { where: [], channel_account_id } }],
    ];
    const account = { kind: "telegram", name: "bot of bob", credentials: { token: "456:token-of-the-bot" } };
    const added = await send("POST", "/v1/channel-accounts", {
      ...account,
      settings: { assistant_id: "graph", mode: "polling" },
    });
    const theirs = JSON.parse(added.text) as { channel_account_id: string };
    refused.push([
      ...["PUT", "/v1/conversations"],
      { channel_account_id: theirs.channel_account_id, thread_id, address: { chat_id: 7 } },
    ] as never);
    for (const [method, path, body] of refused) {
      const { status, text } = await send(method, path, body);
      expect(`${method} ${path} ${JSON.stringify(body)}: ${status} ${text}`).toMatch(/: (404|409|422) /);
      expect(text).not.toMatch(/secret/);
    }
    const pruned = await send("POST", "/threads/prune", { thread_ids: [thread_id], strategy: "delete" });
    expect(pruned.text).toMatch(/:0\b/);

    // What one may list: nothing in it is of the other, whatever is asked for.
    for (const path of [
      ...["/v1/approvals", "/v1/runs", "/v1/effects", "/v1/budgets", "/v1/channel-accounts", "/v1/conversations"],
      ...["/v1/deliveries", "/v1/followups", "/v1/contacts", "/v1/schedules", "/v1/suppressions"],
      ...["approvals", "conversations", "deliveries", "followups", "effects"].map(
        (of) => `/v1/${of}?thread_id=${thread_id}`,
      ),
      `/v1/effects?run_id=${run_id}`,
    ]) {
      const { status, text } = await send("GET", path);
      expect([status, Object.values(ids).filter((id) => id !== "thread" && text.includes(id))], path).toEqual([
        200,
        [],
      ]);
    }
    expect(await client.threads.search({ ids: [thread_id as string] })).toEqual([]);
    expect(await client.threads.search({ metadata: { secret: "mine" } })).toEqual([]);
    expect((await client.threads.search()).map((thread) => thread.thread_id)).toEqual([own]);
    expect(JSON.parse((await send("POST", "/threads/count", {})).text)).toBe(1);

    // Nor is anything of theirs cancelled or taken back, by its id or with all that there is.
    for (const body of [
      { run_ids: [run_id] },
      { thread_id, run_ids: [run_id] },
      { thread_id, status: "all" },
      { status: "all" },
    ]) {
      for (const action of ["interrupt", "rollback"]) {
        const { status, text } = await send("POST", `/runs/cancel?action=${action}`, body);
        expect([status < 500, text.includes("secret")], `${action} ${JSON.stringify(body)}: ${text}`).toEqual([
          true,
          false,
        ]);
      }
    }

    // An idempotency key is each tenant's own.
    const key = { "idempotency-key": "one key" };
    const carol = await sideOf(t, "carol");
    const made = await Promise.all([send, carol.send].map((each) => each("POST", "/threads", { metadata: {} }, key)));
    expect(made.map(({ status }) => status)).toEqual([200, 200]);
    expect(new Set(made.map(({ text }) => (JSON.parse(text) as { thread_id: string }).thread_id)).size).toBe(2);
  });
});
