// A2A for the users of one tenant, and for tenants: what isn't theirs is no agent and no task of theirs.
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { registerAssistants } from "../../src/engine/commands/register-assistants.js";
import { type Agent, agent0, agent1 } from "../helpers/a2a.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { clientAs, gateOf, ownersAuth, USER_HEADER } from "../helpers/users.js";
import { graphs } from "./graphs.js";

type App = TestEngine["app"];

/** A client that sends these headers with everything. */
function speakerTo(app: App, headers: Record<string, string>, connect: typeof agent0) {
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    return app.fetch(request);
  };
  return (assistant: string): Promise<Agent> => connect({ url: "http://perdure.test", fetch, assistant });
}

type Side = Readonly<{ to: (assistant: string) => Promise<Agent>; client: ReturnType<typeof clientAs> }>;

async function theirsStaysTheirs(alice: Side, bob: Side): Promise<void> {
  const { assistant_id: own } = await alice.client.assistants.create({ graphId: "echo", name: "of alice" });
  await expect(bob.to(own)).rejects.toThrow(/404/);
  expect(await (await alice.to(own)).send({ text: "secret" })).toMatchObject({ said: "you said: secret" });
  const [hers, his] = [await alice.to("echo"), await bob.to("echo")];
  const { id, contextId } = await hers.send({ text: "secret" });
  const asked = [
    () => his.get(id),
    () => his.cancel(id),
    () => his.send({ text: "x", taskId: id }),
    () => his.resubscribe(id).next(),
  ];
  for (const ask of asked) {
    await expect(ask()).rejects.toThrow(/task/i);
  }
  await expect(bob.client.threads.get(contextId)).rejects.toThrow(/404/);
  // The same message of somebody else's is another.
  const messageId = crypto.randomUUID();
  const [one, other] = [await hers.send({ text: "x", messageId }), await his.send({ text: "x", messageId })];
  expect(other.id).not.toBe(one.id);
}

test.each([agent0, agent1])("users are apart", async (connect) => {
  await withEngine({ graphs: { echo: graphs.echo }, workers: 1, auth: gateOf(ownersAuth()) }, async ({ app }) => {
    await expect(speakerTo(app, {}, connect)("echo")).rejects.toThrow(/401/);
    const as = (user: string): Side => ({
      to: speakerTo(app, { [USER_HEADER]: user }, connect),
      client: clientAs(app, { [USER_HEADER]: user }),
    });
    const [alice, bob] = [as("alice"), as("bob")];
    await theirsStaysTheirs(alice, bob);
    const { contextId } = await (await alice.to("echo")).send({ text: "x" });
    expect(await alice.client.threads.get(contextId)).toMatchObject({ metadata: { owner: "alice" } });
    await expect((await bob.to("echo")).send({ text: "x", contextId })).rejects.toThrow();
    expect(await alice.client.runs.list(contextId)).toHaveLength(1);
  });
});

test.each([agent0, agent1])("who sends a message again sees no more of its task than else", async (connect) => {
  await withEngine({ graphs: { echo: graphs.echo }, workers: 1, auth: gateOf(ownersAuth()) }, async ({ app, db }) => {
    const alice = await speakerTo(app, { [USER_HEADER]: "alice" }, connect)("echo");
    const said = { text: "x", messageId: crypto.randomUUID() };
    const { id, contextId } = await alice.send(said);
    expect(await alice.send(said)).toMatchObject({ id });
    const owner = JSON.stringify({ owner: "bob" });
    await db.db.query("update threads set metadata = metadata || $2::jsonb where thread_id = $1", [contextId, owner]);
    for (const ask of [() => alice.get(id), () => alice.send(said)]) await expect(ask()).rejects.toThrow(/task/i);
  });
});

test.each([agent0, agent1])("tenants are apart", async (connect) => {
  await withEngine({ graphs: { echo: graphs.echo }, workers: 1 }, async (t) => {
    const sideOf = async (tenantId: string): Promise<Side> => {
      await t.db.db.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenantId]);
      await registerAssistants(t.deps, { tenantId: tenantId as TenantId, graphIds: t.engine.graphs.ids });
      const app = createApp({ ...t.engine, tenantOf: () => Promise.resolve(tenantId as TenantId) });
      return { to: speakerTo(app, {}, connect), client: clientAs(app, {}) };
    };
    await theirsStaysTheirs(await sideOf("alice"), await sideOf("bob"));
  });
});
