// MCP for the users of one tenant: what isn't theirs is no tool of theirs, and what their tools make is.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Auth } from "@langchain/langgraph-sdk/auth";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { registerAssistants } from "../../src/engine/commands/register-assistants.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { clientAs, gateOf, ownersAuth, USER_HEADER } from "../helpers/users.js";
import { graphs } from "./graphs.js";

async function connect(app: TestEngine["app"], headers: Record<string, string>): Promise<Client> {
  const client = new Client({ name: "test", version: "1" });
  const fetch = async (input: string | URL, init?: RequestInit) => app.fetch(new Request(input, init));
  const transport = new StreamableHTTPClientTransport(new URL("http://perdure.test/mcp"), {
    requestInit: { headers },
    fetch,
  });
  await client.connect(transport);
  return client;
}

type Result = Readonly<{
  isError?: boolean;
  structuredContent: Record<string, unknown>;
  _meta: Record<string, string>;
}>;
const call = async (client: Client, name: string, args: Record<string, unknown> = {}): Promise<Result> =>
  (await client.callTool({ name, arguments: args })) as unknown as Result;
const titles = async (client: Client) => (await client.listTools()).tools.flatMap(({ title }) => title ?? []);

test("a user's assistants, threads and follow-ups are tools and things of that user only", async () => {
  await withEngine({ graphs: { steps: graphs.steps }, workers: 1, auth: gateOf(ownersAuth()) }, async ({ app }) => {
    await expect(connect(app, {})).rejects.toThrow();
    const [alice, bob] = [await connect(app, { [USER_HEADER]: "alice" }), await connect(app, { [USER_HEADER]: "bob" })];
    const as = (user: string) => clientAs(app, { [USER_HEADER]: user });
    const { assistant_id: own } = await as("alice").assistants.create({ graphId: "steps", name: "of alice" });
    expect([await titles(alice), await titles(bob)]).toEqual([["steps", "of alice"], ["steps"]]);
    for (const name of [own, "of alice", `of_alice_${own.slice(-8)}`]) {
      await expect(call(bob, name)).rejects.toThrow("Unknown tool");
      expect((await call(alice, name))._meta["assistant_id"]).toBe(own);
    }
    const { thread_id: threadId = "" } = (await call(alice, "steps"))._meta;
    expect(await as("alice").threads.get(threadId)).toMatchObject({ metadata: { owner: "alice" } });
    await expect(as("bob").threads.get(threadId)).rejects.toThrow(/404/);

    const asked = { threadId, about: "x", instruction: "x", mode: "remind", when: { in: "P1D" } };
    const made = await call(alice, "schedule_followup", asked);
    const { id } = made.structuredContent;
    expect(made.isError).toBeUndefined();
    for (const [name, args] of [
      ["schedule_followup", asked],
      ["cancel_followup", { id }],
      ["reschedule_followup", { id, when: { in: "P2D" } }],
    ] as const) {
      expect([name, (await call(bob, name, args)).isError]).toEqual([name, true]);
    }
    expect((await call(bob, "list_followups")).structuredContent).toEqual({ followups: [] });
    expect((await call(alice, "list_followups")).structuredContent).toMatchObject({ followups: [{ id }] });
  });
});

test("who may not make runs is told so by the call, and who may list nothing by the list", async () => {
  const auth = new Auth()
    .authenticate(() => ({ identity: "reader", permissions: [] }))
    .on("threads:create_run", () => false)
    .on("assistants:search", () => false);
  await withEngine({ graphs: { steps: graphs.steps }, auth: gateOf(auth) }, async ({ app }) => {
    const client = await connect(app, {});
    expect(await call(client, "steps")).toMatchObject({ isError: true });
    await expect(client.listTools()).rejects.toThrow(/-32600/);
  });
});

test("another tenant's assistants are no tools, by whatever name", async () => {
  await withEngine({ graphs: { steps: graphs.steps }, workers: 1 }, async (t) => {
    const sideOf = async (tenantId: string) => {
      await t.db.db.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenantId]);
      await registerAssistants(t.deps, { tenantId: tenantId as TenantId, graphIds: t.engine.graphs.ids });
      const app = createApp({ ...t.engine, tenantOf: () => Promise.resolve(tenantId as TenantId) });
      return { mcp: await connect(app, {}), client: clientAs(app, {}) };
    };
    const [alice, bob] = [await sideOf("alice"), await sideOf("bob")];
    const { assistant_id: own } = await alice.client.assistants.create({ graphId: "steps", name: "of alice" });
    expect([await titles(alice.mcp), await titles(bob.mcp)]).toEqual([["steps", "of alice"], ["steps"]]);
    for (const name of [own, "of alice", `of_alice_${own.slice(-8)}`])
      await expect(call(bob.mcp, name)).rejects.toThrow("Unknown tool");
    const { thread_id: threadId = "" } = (await call(alice.mcp, "steps"))._meta;
    await expect(bob.client.threads.get(threadId)).rejects.toThrow(/404/);
    const asked = { threadId, about: "x", instruction: "x", mode: "remind", when: { in: "P1D" } };
    expect((await call(bob.mcp, "schedule_followup", asked)).isError).toBe(true);
  });
});
