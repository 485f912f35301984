// `new Client()` without a URL in a graph: the API of its own process, as whoever the run is for, without a slot for waiting.
import { Client } from "@langchain/langgraph-sdk";
import { Annotation, StateGraph } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { describe, expect, it } from "vitest";
import { composeApi, composeInnerApi } from "../../src/compose-api.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { actingAs } from "../../src/engine/loopback.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { clientAs, gateOf, ownersAuth, USER_HEADER } from "../helpers/users.js";
import { until } from "../helpers/wait.js";

const State = Annotation.Root({ n: Annotation<number>, seen: Annotation<unknown> });
const oneNode = (node: (state: typeof State.State) => Promise<Partial<typeof State.State>>) =>
  new StateGraph(State).addNode("node", node).addEdge("__start__", "node").compile();

const child = oneNode(({ n }) => Promise.resolve({ n: n + 1 }));
const parent = oneNode(
  async ({ n }) => (await new Client().runs.wait(null, "child", { input: { n } })) as { n: number },
);
const deep = oneNode(async ({ n }) =>
  n === 0
    ? { n: 0, seen: "bottom" }
    : ((await new Client().runs.wait(null, "deep", { input: { n: n - 1 } })) as object),
);
const streams = oneNode(async ({ n }) => {
  const seen: string[] = [];
  const input = { n };
  for await (const { event } of new Client().runs.stream(null, "child", { input, streamMode: ["values"] }))
    seen.push(event);
  return { seen };
});
const remote = oneNode(async ({ n }) => {
  const answer = await new RemoteGraph({ graphId: "child" }).invoke({ n });
  return { n: (answer as { n: number }).n };
});
const graphs = { child, parent, deep, streams, remote };

const withInside = (options: Readonly<{ concurrency: number }>, work: (t: TestEngine) => Promise<void>) =>
  withEngine({ graphs, workers: 0 }, async (t) => {
    // As in a process that has both: what is accepted is begun where it was accepted.
    t.startWorker({ ...options, withApi: true });
    const close = composeInnerApi(t.engine, () => Promise.resolve({}));
    try {
      await work(t);
    } finally {
      close();
    }
  });

describe("a graph that calls the API", () => {
  it("waits for and streams runs of other graphs, in the one slot there is", async () => {
    await withInside({ concurrency: 1 }, async ({ client }) => {
      expect(await client.runs.wait(null, "parent", { input: { n: 1 } })).toEqual({ n: 2 });
      expect(await client.runs.wait(null, "deep", { input: { n: 3 } })).toEqual({ n: 0, seen: "bottom" });
      expect(await client.runs.wait(null, "streams", { input: { n: 1 } })).toMatchObject({
        seen: ["metadata", "values", "values"],
      });
    });
  });

  it("is refused to wait for its own thread, which it keeps busy itself", async () => {
    await withInside({ concurrency: 1 }, async ({ client }) => {
      const { thread_id } = await client.threads.create();
      // A graph of the same server as a node takes the thread it is on.
      await expect(client.runs.wait(thread_id, "remote", { input: { n: 1 } })).rejects.toThrow(
        `HTTP 422: A run of thread ${thread_id} can't wait for another run of it`,
      );
    });
  });

  it("leaves no more runs under way than there are slots, but for those that wait", async () => {
    let running = 0;
    let most = 0;
    const busy = oneNode(async ({ n }) => {
      most = Math.max(most, (running += 1));
      await new Promise((resolve) => setTimeout(resolve, 30));
      running -= 1;
      return { n };
    });
    const asks = oneNode(async ({ n }) => (await new Client().runs.wait(null, "busy", { input: { n } })) as object);
    await withEngine({ graphs: { busy, asks }, concurrency: 2 }, async ({ client, engine }) => {
      const close = composeInnerApi(engine, () => Promise.resolve({}));
      const all = Array.from({ length: 12 }, (_, n) => client.runs.wait(null, "asks", { input: { n } }));
      expect((await Promise.all(all)).map((values) => (values as { n: number }).n)).toEqual([...Array(12).keys()]);
      expect(most).toBeLessThanOrEqual(2);
      close();
    });
  });

  it("has its calls cut off when it is cancelled, and a run that was made for it alone goes with it", async () => {
    const forever = oneNode(() => new Promise(() => undefined));
    const asks = oneNode(
      async () =>
        (await new Client().runs.wait(null, "forever", { input: {}, onDisconnect: "cancel" })) as Partial<{
          n: number;
        }>,
    );
    await withEngine({ graphs: { forever, asks }, pollMs: 50 }, async ({ client, engine, db }) => {
      const close = composeInnerApi(engine, () => Promise.resolve({}));
      const { thread_id } = await client.threads.create();
      const { run_id } = await client.runs.create(thread_id, "asks", { input: {} });
      const statuses = async () =>
        (await db.db.query<{ status: string }>("select status from runs order by created_at")).rows.map(
          ({ status }) => status,
        );
      await until("both are under way", async () => (await statuses()).join() === "running,running");
      await client.runs.cancel(thread_id, run_id);
      await until("both are over", async () => (await statuses()).every((status) => status !== "running"));
      close();
    });
  });
});

it("a run's calls reach what its user reaches, and nobody's runs reach nothing", async () => {
  const lists = oneNode(async () => ({
    seen: (await new Client().threads.search()).map(({ thread_id }) => thread_id),
  }));
  await withEngine({ graphs: { lists }, auth: gateOf(ownersAuth()) }, async ({ app, engine }) => {
    const close = composeInnerApi(engine, () => Promise.resolve({}));
    const as = (user: string) => clientAs(app, { [USER_HEADER]: user });
    const mine: Record<string, string> = {};
    for (const user of ["ana", "bob"]) mine[user] = (await as(user).threads.create()).thread_id;
    for (const user of ["ana", "bob"]) {
      const { seen } = (await as(user).runs.wait(mine[user] ?? "", "lists", { input: {} })) as { seen: unknown };
      expect(seen).toEqual([mine[user]]);
    }
    // As a run that came in over a channel, say.
    const nobody = { tenantId: DEFAULT_TENANT, user: null };
    const asked = actingAs({ home: engine.deps, who: () => nobody }, () => new Client().threads.search());
    await expect(asked).rejects.toThrow("HTTP 401");
    close();
  });
});

it("the engines of one process are told apart, and calls of nobody go to the one that was opened last", async () => {
  const namely = (name: string) => oneNode(() => Promise.resolve({ seen: name }));
  const asks = oneNode(async () => (await new Client().runs.wait(null, "name", { input: {} })) as { seen: unknown });
  await withEngine({ graphs: { name: namely("one"), asks } }, (one) =>
    withEngine({ graphs: { name: namely("two"), asks } }, async (two) => {
      const apis = [one, two].map(({ engine }) => composeApi(engine, {}));
      expect(await one.client.runs.wait(null, "asks", { input: {} })).toEqual({ seen: "one" });
      expect(await two.client.runs.wait(null, "asks", { input: {} })).toEqual({ seen: "two" });
      expect(await new Client().runs.wait(null, "name", { input: {} })).toEqual({ seen: "two" });
      for (const { close } of apis) close();
      expect(Symbol.for("langgraph_api:fetch") in globalThis).toBe(false);
    }),
  );
});

it("a call is its run's, whatever tenant its headers name; credentials of its own make it anybody's", async () => {
  await withEngine({ graphs, workers: 0 }, async ({ engine }) => {
    const asked: (string | null)[] = [];
    const tenantOf: typeof engine.tenantOf = (headers) => {
      asked.push(headers.get("authorization"));
      return engine.tenantOf(headers);
    };
    const { close } = composeApi({ ...engine, tenantOf }, {});
    const who = { tenantId: await engine.tenantOf(new Headers()), user: null };
    await actingAs({ home: engine.deps, who: () => who }, async () => {
      const named = new Client({ apiKey: "key", defaultHeaders: { "x-tenant-id": "another" } });
      expect(await named.threads.search()).toEqual([]);
      expect(asked).toEqual([]);
      await new Client({ defaultHeaders: { authorization: "Bearer mine" } }).threads.search();
      expect(asked).toEqual(["Bearer mine"]);
    });
    close();
  });
});
