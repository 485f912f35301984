import { randomUUID } from "node:crypto";
import { request } from "node:http";
import { Annotation, getWriter, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.js";
import { serveApi } from "../../src/api/server.js";
import { withEngine } from "../helpers/engine.js";
import { quietPort } from "../helpers/ports.js";
import { startProxy } from "../helpers/proxy.js";

/** Counts up, one custom event each, as fast as the test lets it. */
const doors = new Map<string, () => void>();
const counting = new StateGraph(Annotation.Root({ key: Annotation<string>, to: Annotation<number> }))
  .addNode("count", async ({ key, to }, config) => {
    for (let n = 1; n <= to; n++) {
      getWriter()?.(n);
      if (n % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    }
    if (key !== "") {
      await new Promise<void>((resolve, reject) => {
        doors.set(key, resolve);
        config.signal?.addEventListener("abort", () => reject(new Error("aborted")));
      });
    }
    return {};
  })
  .addEdge(START, "count");

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await check())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A client that can do what fetch hides: see the head at once, and cut the line. */
function open(url: string, body: unknown) {
  const chunks: string[] = [];
  let status: number | undefined;
  const headers: Record<string, unknown> = {};
  let ended = false;
  const outgoing = request(url, { method: "POST", headers: { "content-type": "application/json" } }, (incoming) => {
    status = incoming.statusCode;
    Object.assign(headers, incoming.headers);
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk: string) => chunks.push(chunk));
    incoming.on("close", () => (ended = true));
    incoming.on("error", () => {});
  });
  outgoing.on("error", () => {});
  outgoing.end(JSON.stringify(body));
  return {
    text: () => chunks.join(""),
    status: () => status,
    headers,
    ended: () => ended,
    cut: () => void outgoing.destroy(),
  };
}

it("a stream answers at once who it is, before any worker has the run, and beats while it waits", async () => {
  await withEngine({ graphs: { counting }, workers: 0 }, async ({ app, client, deps }) => {
    // It beats every few seconds; here they are shorter.
    const { monotonicMs, sleep } = deps.clock;
    const fast: Clock = { monotonicMs: () => monotonicMs() * 20, sleep: (ms, signal) => sleep(ms / 20, signal) };
    Object.assign(deps, { clock: fast });
    const server = await serveApi(app, { port: 0 });
    const { thread_id } = await client.threads.create();
    const line = open(`${server.url}/threads/${thread_id}/runs/stream`, { assistant_id: "counting", input: { to: 0 } });
    await until(() => line.status() === 200);
    expect(line.headers["content-location"]).toMatch(/\/runs\/[0-9a-f-]{36}$/);
    await until(() => line.text().startsWith(": heartbeat\n\n"));
    line.cut();
    await server.close({ graceMs: 0 });
  });
});

it.each([
  ["cancel", "interrupted"],
  ["continue", "success"],
] as const)("cutting the line with on_disconnect %s ends the run as %s", async (on_disconnect, status) => {
  await withEngine({ graphs: { counting } }, async ({ app, client }) => {
    const server = await serveApi(app, { port: 0 });
    const { thread_id } = await client.threads.create();
    for (const route of ["stream", "wait"]) {
      const key = randomUUID();
      const body = { assistant_id: "counting", input: { key, to: 1 }, stream_mode: "custom", on_disconnect };
      const line = open(`${server.url}/threads/${thread_id}/runs/${route}`, body);
      await until(() => doors.has(key) && line.status() === 200);
      line.cut();
      const runId = String(line.headers["content-location"]).split("/").at(-1) ?? "";
      if (on_disconnect === "continue") doors.get(key)?.();
      await until(async () => (await client.runs.get(thread_id, runId)).status === status);
    }
    await server.close({ graceMs: 0 });
  });
});

it("behind a proxy that closes what is quiet for five seconds a node may say nothing for longer", async () => {
  await withEngine({ graphs: { counting } }, async ({ app, client: inner }) => {
    const server = await serveApi(app, { port: 0 });
    const proxy = await startProxy(server.url);
    proxy.faults.quietMs = 5_000;
    const lines = [];
    for (const on_disconnect of ["continue", "cancel"]) {
      for (const route of ["stream", "wait"]) {
        const { thread_id } = await inner.threads.create();
        const key = randomUUID();
        const body = { assistant_id: "counting", input: { key, to: 1 }, stream_mode: "custom", on_disconnect };
        const line = open(`http://127.0.0.1:${proxy.port}/threads/${thread_id}/runs/${route}`, body);
        await until(() => doors.has(key));
        lines.push({ line, key, thread_id });
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 12_000));
    expect(lines.filter(({ line }) => line.ended())).toEqual([]);
    for (const { line, key, thread_id } of lines) {
      doors.get(key)?.();
      await until(() => line.ended());
      expect(await inner.runs.list(thread_id)).toMatchObject([{ status: "success" }]);
    }
    await proxy.close();
    await server.close({ graceMs: 0 });
  });
});

it("a client whose going cancels its run may lose its line and come back; when it stays away the run is cancelled", async () => {
  await withEngine({ graphs: { counting } }, async ({ app, client: inner }) => {
    const server = await serveApi(app, { port: 0 });
    const proxy = await startProxy(server.url);
    const { thread_id } = await inner.threads.create();
    const key = randomUUID();
    const client = new Client({ apiUrl: `http://127.0.0.1:${proxy.port}` });
    const leave = new AbortController();
    const options = { input: { key, to: 3 }, streamMode: "custom" as const, onDisconnect: "cancel" as const };
    const seen: unknown[] = [];
    const watching = (async () => {
      const stream = client.runs.stream(thread_id, "counting", { ...options, signal: leave.signal });
      for await (const { event, data } of stream) seen.push(event === "custom" ? data : event);
    })().catch(() => undefined);
    await until(() => doors.has(key) && seen.length === 4);
    proxy.cut();
    // For longer than it is waited for.
    await new Promise((resolve) => setTimeout(resolve, 9_000));
    expect(await inner.runs.list(thread_id)).toMatchObject([{ status: "running" }]);
    expect(seen).toEqual(["metadata", 1, 2, 3]);
    proxy.faults.refusing = true;
    proxy.cut();
    await until(async () => (await inner.runs.list(thread_id))[0]?.status === "interrupted");
    leave.abort();
    await watching;
    await proxy.close();
    await server.close({ graceMs: 0 });
  });
});

it("a server that stops cuts its streams and cancels nothing: the client goes on elsewhere and misses no event", async () => {
  await withEngine({ graphs: { counting } }, async ({ app, client: inner }) => {
    const first = await serveApi(app, { port: await quietPort() });
    const { thread_id } = await inner.threads.create();
    const key = randomUUID();
    const client = new Client({ apiUrl: first.url });
    const seen: unknown[] = [];
    let second: typeof first | undefined;
    const options = { input: { key, to: 40 }, streamMode: "custom" as const, onDisconnect: "cancel" as const };
    for await (const { event, data } of client.runs.stream(thread_id, "counting", options)) {
      seen.push(event === "custom" ? data : event);
      if (seen.length !== 11) continue;
      await first.close({ graceMs: 0 });
      second = await serveApi(app, { port: first.port });
      await until(() => doors.has(key));
      doors.get(key)?.();
    }
    expect(seen).toEqual(["metadata", ...Array.from({ length: 40 }, (_, n) => n + 1)]);
    expect(await inner.runs.list(thread_id)).toMatchObject([{ status: "success" }]);
    await second?.close({ graceMs: 0 });
  });
});

it("1..500 arrive once each and in order through ten broken connections, each time by another server", async () => {
  await withEngine({ graphs: { counting } }, async ({ app, client: inner }) => {
    const servers = [await serveApi(app, { port: 0 }), await serveApi(app, { port: 0 })] as const;
    const { thread_id } = await inner.threads.create();
    const run = await inner.runs.create(thread_id, "counting", { input: { key: "", to: 500 }, streamMode: "custom" });
    const seen: unknown[] = [];
    let lastEventId = "-1";
    for (let visit = 0, ended = false; !ended; visit++) {
      const client = new Client({ apiUrl: servers[visit % 2 === 0 ? 0 : 1].url });
      const stop = new AbortController();
      let left = visit < 10 ? 45 : Number.POSITIVE_INFINITY;
      ended = true;
      try {
        for await (const part of client.runs.joinStream(thread_id, run.run_id, { lastEventId, signal: stop.signal })) {
          seen.push(part.data);
          lastEventId = part.id ?? lastEventId;
          if (--left > 0) continue;
          ended = false;
          stop.abort();
          break;
        }
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    }
    expect(seen.slice(1)).toEqual(Array.from({ length: 500 }, (_, n) => n + 1));
    const late: unknown[] = [];
    const client = new Client({ apiUrl: servers[0].url });
    for await (const part of client.runs.joinStream(thread_id, run.run_id, { lastEventId: "-1" })) late.push(part.data);
    expect(late).toEqual(seen);
    for (const server of servers) await server.close({ graceMs: 0 });
  });
});

it("an event of 20 kB and one of exactly 8000 bytes arrive live", async () => {
  const texts = ["😀".repeat(5_000), "😀".repeat(1_999) + "ab"];
  expect(texts.map((text) => Buffer.byteLength(JSON.stringify(text)))).toEqual([20_002, 8_000]);
  const large = new StateGraph(Annotation.Root({ n: Annotation<number> }))
    .addNode("say", async () => {
      for (const text of texts) getWriter()?.(text);
      return {};
    })
    .addEdge(START, "say");
  await withEngine({ graphs: { large } }, async ({ client }) => {
    const { thread_id } = await client.threads.create();
    const seen: unknown[] = [];
    for await (const { event, data } of client.runs.stream(thread_id, "large", {
      input: { n: 1 },
      streamMode: "custom",
    })) {
      if (event === "custom") seen.push(data);
    }
    expect(seen).toEqual(texts);
  });
});
