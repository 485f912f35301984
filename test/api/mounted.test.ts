// An engine mounted into applications of all sorts: requests, streams as they come, WebSockets, bodies that were read before.
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Client, ProtocolWebSocketTransportAdapter, ThreadStream } from "@langchain/langgraph-sdk";
import { Annotation, getWriter, StateGraph } from "@langchain/langgraph";
import express from "express";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { cors } from "hono/cors";
import { logger } from "hono/logger";
import { createPerdure, type Perdure, type PerdureOptions } from "perdure";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";

const State = Annotation.Root({ n: Annotation<number> });
/** Between its two words it waits to be told that the first was heard. */
const graph = new StateGraph(State)
  .addNode("speak", async ({ n }) => {
    getWriter()?.({ said: "first" });
    await heard.promise;
    getWriter()?.({ said: "second" });
    return { n: n + 1 };
  })
  .addEdge("__start__", "speak");
const gate = () => {
  let open = (): void => undefined;
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open };
};
let heard = gate();

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

type Mount = (perdure: Perdure) => Promise<{ server: Server; path: string }>;

async function listening(server: Server): Promise<Server> {
  if (!server.listening) await once(server.listen(0, "127.0.0.1"), "listening");
  return server;
}
const node = (listener: RequestListener) => listening(createServer(listener));

async function withMounted(
  mount: Mount,
  work: (url: string, perdure: Perdure) => Promise<void>,
  options: Partial<PerdureOptions> = {},
): Promise<void> {
  heard = gate();
  const parts = {
    databaseUrl: database.url,
    bodies: "memory:",
    graphs: { graph },
    logLevel: "silent",
    auth: "open",
  } as const;
  const perdure = createPerdure({ ...parts, ...options });
  await perdure.start();
  const { server, path } = await mount(perdure);
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, perdure);
  } finally {
    heard.open();
    await perdure.stop();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const HONO: Mount = async (perdure) => {
  const app = new Hono().use(logger(() => undefined)).use(compress());
  app.mount("/agents", perdure.fetch);
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1", overrideGlobalObjects: false }) as Server;
  return { server: await listening(server), path: "/agents" };
};
const EXPRESS: Mount = async (perdure) => {
  const app = express().use("/agents", perdure.listener);
  return { server: await node(app), path: "/agents" };
};
const PARSED: Mount = async (perdure) => {
  const app = express().use(express.json()).use("/agents", perdure.listener);
  return { server: await node(app), path: "/agents" };
};
const NODE: Mount = async (perdure) => ({ server: await node(perdure.listener), path: "" });

describe.each([
  ["Hono", HONO],
  ["Express", EXPRESS],
  ["Express behind express.json()", PARSED],
  ["plain Node", NODE],
])("mounted into %s", (_name, mount) => {
  it("the stock client makes threads, waits, and gets each event of a stream when it is there", async () => {
    await withMounted(mount, async (apiUrl) => {
      const client = new Client({ apiUrl });
      const { thread_id } = await client.threads.create({ metadata: { umlaut: "grüße" } });
      expect(await client.threads.get(thread_id)).toMatchObject({ metadata: { umlaut: "grüße" } });
      const said: unknown[] = [];
      for await (const { event, data } of client.runs.stream(thread_id, "graph", {
        input: { n: 1 },
        streamMode: ["custom", "values"],
      })) {
        if (event === "custom") said.push(data);
        // Were it held back, this would never be.
        if (said.length === 1) heard.open();
      }
      expect(said).toEqual([{ said: "first" }, { said: "second" }]);
      expect(await client.runs.wait(thread_id, "graph", { input: { n: 2 } })).toEqual({ n: 3 });
      await expect(client.threads.get(crypto.randomUUID())).rejects.toThrow("HTTP 404: Thread");
    });
  });

  it("a client that leaves is noticed", async () => {
    await withMounted(mount, async (apiUrl) => {
      const client = new Client({ apiUrl });
      const { thread_id } = await client.threads.create();
      const leave = new AbortController();
      const stream = client.runs.stream(thread_id, "graph", {
        input: { n: 1 },
        streamMode: "custom",
        onDisconnect: "cancel",
        signal: leave.signal,
      });
      const read = (async () => {
        for await (const { event } of stream) if (event === "custom") leave.abort();
      })();
      await read.catch(() => undefined);
      await expect
        .poll(async () => (await client.runs.list(thread_id))[0]?.status, { timeout: 20_000 })
        .toBe("interrupted");
    });
  });
});

it.each([
  ["the whole path", { basePath: "/api/agents" }, "/api/agents"],
  ["no prefix", {}, ""],
])("WebSockets are taken at %s, others are left alone", async (_name, options, path) => {
  const mount: Mount = async (perdure) => {
    const server = await node((_request, response) => response.writeHead(404).end());
    server.on("upgrade", perdure.upgrade);
    return { server, path };
  };
  await withMounted(
    mount,
    async (apiUrl) => {
      heard.open();
      const threadId = crypto.randomUUID();
      const transport = new ProtocolWebSocketTransportAdapter({
        apiUrl,
        threadId,
        webSocketFactory: (url) => new WebSocket(url) as unknown as globalThis.WebSocket,
      });
      const thread = new ThreadStream(transport, { assistantId: "graph" });
      await thread.run.start({ input: { n: 1 } });
      expect(await thread.output).toEqual({ n: 2 });
      await thread.close();
    },
    options,
  );
});

it("leaves to the application which pages may call, unless it is told", async () => {
  const origin = { headers: { origin: "https://any.test" } };
  const allowed = async (response: Promise<Response>) => (await response).headers.get("access-control-allow-origin");
  const mount: Mount = async (perdure) => {
    const app = new Hono().use(cors({ origin: "https://mine.test" }));
    app.mount("/agents", perdure.fetch);
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1", overrideGlobalObjects: false }) as Server;
    return { server: await listening(server), path: "/agents" };
  };
  await withMounted(mount, async (url) => {
    expect(await allowed(fetch(`${url}/info`, origin))).toBeNull();
    expect(await allowed(fetch(`${url}/info`, { headers: { origin: "https://mine.test" } }))).toBe("https://mine.test");
  });
  await withMounted(NODE, async (url) => expect(await allowed(fetch(`${url}/info`, origin))).toBe("*"), {
    cors: "any",
  });
});
