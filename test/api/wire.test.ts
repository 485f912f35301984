// What only a real port shows: how bodies come in, with a length, in chunks or not at all.
import { request } from "node:http";
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiServer, serveApi } from "../../src/api/server.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs, workers: 0 });
let server: ApiServer;

beforeAll(async () => {
  server = await serveApi(shared().app, { port: 0 });
});
afterAll(() => server.close());

type Answer = Readonly<{ status: number | undefined; text: string }>;

/** As clients do that don't know the length beforehand. */
function sendInChunks(method: string, path: string, chunks: readonly (string | Buffer)[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "transfer-encoding": "chunked" };
    const outgoing = request(`${server.url}${path}`, { method, headers }, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => (text += chunk));
      incoming.on("end", () => resolve({ status: incoming.statusCode, text }));
    });
    outgoing.on("error", reject);
    for (const chunk of chunks) outgoing.write(chunk);
    outgoing.end();
  });
}

test("a body that comes in chunks is read like any other", async () => {
  const { status, text } = await sendInChunks("POST", "/threads", ['{"metadata":', '{"a":1}}']);
  expect(status).toBe(200);
  expect(JSON.parse(text)).toMatchObject({ metadata: { a: 1 } });
});

test("requests without a body are served, as the stock client and curl send them", async () => {
  const client = new Client({ apiUrl: server.url, callerOptions: { maxRetries: 0 } });
  const { thread_id } = await client.threads.create();
  await client.threads.delete(thread_id);
  await expect(client.threads.get(thread_id)).rejects.toThrow("HTTP 404");
  expect(await sendInChunks("POST", "/threads", [])).toMatchObject({ status: 200 });
});

test("a body that grows beyond the limit while it comes is refused", async () => {
  const megabyte = Buffer.alloc(1024 * 1024, "x");
  const { status, text } = await sendInChunks(
    "POST",
    "/threads",
    Array.from({ length: 65 }, () => megabyte),
  );
  expect([status, text]).toEqual([413, "The request body is larger than 67108864 bytes"]);
});

test("bytes that are no UTF-8 are refused, not replaced", async () => {
  const body = Buffer.concat([Buffer.from('{"metadata":{"a":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}}')]);
  expect(await sendInChunks("POST", "/threads", [body])).toEqual({
    status: 400,
    text: "The request body is not valid UTF-8",
  });
});
