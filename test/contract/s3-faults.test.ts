// What the S3 store makes of servers that fail: a stand-in that can be told how, and the real server with wrong settings.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { openBodyStore } from "../../src/bodies/open.js";
import type { S3Options } from "../../src/bodies/s3.js";
import type { BodyStore } from "../../src/core/deps.js";
import { backoffMs } from "../../src/core/retry.js";
import { describeS3, newS3Uri, s3Options } from "../helpers/s3-store.js";
import { type Fault, failsWith, refusesChecksums, startStubS3 } from "../helpers/stub-s3.js";

type Answer = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;
type Seen = { method: string; url: string; headers: IncomingMessage["headers"]; body: Buffer };

const SECRET = "very-secret-key-of-the-test";
const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

type StandIn = { store: BodyStore; seen: Seen[]; pausesMs: number[] };

/** A server that gives these answers in turn, the last one for ever; and a store on it that doesn't really wait. */
const standIn = (...answers: Answer[]): Promise<StandIn> => standInWithin(60_000, ...answers);

/** One whose answers are waited for so long. */
async function standInWithin(timeoutMs: number, ...answers: Answer[]): Promise<StandIn> {
  const seen: Seen[] = [];
  const pausesMs: number[] = [];
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      seen.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body });
      (answers.length > 1 ? answers.shift()! : answers[0]!)(request, response, body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const store = openBodyStore("s3://bucket/prefix", {
    s3: {
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      region: "us-east-1",
      forcePathStyle: true,
      credentials: { accessKeyId: "key", secretAccessKey: SECRET },
      timeoutMs,
      sleep: async (ms) => void pausesMs.push(ms),
    },
  });
  open.push(async () => {
    await store.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { store, seen, pausesMs };
}

const fails =
  (status: number, code: string): Answer =>
  (_, response) => {
    response.writeHead(status, { "content-type": "application/xml" });
    response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`);
  };
const gives =
  (body: string): Answer =>
  (_, response) =>
    void response.writeHead(200, { "content-length": body.length }).end(body);
const resets: Answer = (request) => void request.socket.destroy();
const resetsHalfway: Answer = (request, response) => {
  response.writeHead(200, { "content-length": 10 });
  response.write("01234", () => request.socket.destroy());
};
const hangsHalfway: Answer = (_, response) => {
  response.writeHead(200, { "content-length": 10 });
  response.write("01234");
};

it("reads after three 503, with pauses that grow and differ", async () => {
  const { store, pausesMs } = await standIn(
    fails(503, "SlowDown"),
    fails(503, "SlowDown"),
    fails(503, "SlowDown"),
    gives("0123456789"),
  );
  expect(Buffer.from(await store.read("k")).toString()).toBe("0123456789");
  expect(pausesMs).toHaveLength(3);
  expect(pausesMs[2]).toBeGreaterThanOrEqual(200);
});
it("reads again when a body breaks off or stops coming", async () => {
  const { store, seen } = await standInWithin(1_000, resetsHalfway, hangsHalfway, gives("0123456789"));
  expect(Buffer.from(await store.read("k")).toString()).toBe("0123456789");
  expect(seen).toHaveLength(3);
});
it("takes longer over an upload than over silence", async () => {
  // A piece at a time, for longer than it may be silent. The kernels between them hold a few megabytes.
  const reads: number[] = [];
  const server = createServer((request, response) => {
    request.on("data", () => {
      reads.push(performance.now());
      request.pause();
      setTimeout(() => request.resume(), 4);
    });
    request.on("end", () => void response.writeHead(200).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const store = openBodyStore("s3://bucket", {
    s3: {
      ...{ endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, region: "x", forcePathStyle: true },
      ...{ credentials: { accessKeyId: "a", secretAccessKey: "b" }, attempts: 1, timeoutMs: 1_000 },
    },
  });
  open.push(async () => {
    await store.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  expect(await store.create("k", Buffer.alloc(40_000_000))).toBe(true);
  expect(reads.at(-1)! - reads[0]!).toBeGreaterThan(1_000);
});
it("gives up as unavailable after five tries", async () => {
  const { store, seen } = await standIn(fails(500, "InternalError"));
  await expect(store.read("k")).rejects.toMatchObject({ code: "unavailable" });
  expect(seen).toHaveLength(5);
});
it("is unavailable when nobody listens, or answers an error without a body", async () => {
  const gone = openBodyStore("s3://bucket", {
    s3: {
      endpoint: "http://127.0.0.1:9",
      region: "x",
      credentials: { accessKeyId: "a", secretAccessKey: "b" },
      attempts: 1,
    },
  });
  await expect(gone.read("k")).rejects.toMatchObject({ code: "unavailable" });
  const { store } = await standIn((_, response) => void response.writeHead(503).end());
  await expect(store.read("k")).rejects.toMatchObject({ code: "unavailable" });
});
it("knows its own object when the answer to its creation was lost", async () => {
  const { store } = await standIn(resets, fails(412, "PreconditionFailed"), gives("mine"));
  expect(await store.create("k", Buffer.from("mine"))).toBe(true);
  const { store: other } = await standIn(resets, fails(412, "PreconditionFailed"), gives("not mine"));
  expect(await other.create("k", Buffer.from("mine"))).toBe(false);
});
it("tries again when two creators collide", async () => {
  const { store } = await standIn(fails(409, "ConditionalRequestConflict"), gives(""));
  expect(await store.create("k", Buffer.from("x"))).toBe(true);
});
it("sends whole buffers on the condition that there is none, without checksum headers", async () => {
  const { store, seen } = await standIn(gives(""));
  await store.create("k", Buffer.from("bytes"));
  expect(seen[0]).toMatchObject({ method: "PUT", headers: { "if-none-match": "*", "content-length": "5" } });
  expect(seen[0]!.url).toMatch(/^\/bucket\/prefix\/k(\?|$)/);
  expect(seen[0]!.body.toString()).toBe("bytes");
  expect(Object.keys(seen[0]!.headers).filter((name) => /checksum|trailer/.test(name))).toEqual([]);
});
it("deletes one by one where batches are refused", async () => {
  const { store, seen } = await standIn(
    fails(400, "InvalidRequest"),
    (_, response) => void response.writeHead(204).end(),
  );
  await store.delete(["a", "b", "c"]);
  expect(seen.map((one) => one.method)).toEqual(["POST", "DELETE", "DELETE", "DELETE"]);
});
it("doesn't try again, and says what to change, when the server lacks conditional writes", async () => {
  const { store, seen } = await standIn(fails(501, "NotImplemented"));
  const refused = { code: "config_invalid", message: expect.stringMatching(/conditional PUT/) };
  await expect(store.create("k", Buffer.from("x"))).rejects.toMatchObject(refused);
  expect(seen).toHaveLength(1);
  await expect(store.probe()).rejects.toMatchObject(refused);
});
it("is refused by the probe when it overwrites", async () => {
  let stored: Buffer = Buffer.alloc(0);
  const { store } = await standIn((request, response, body) => {
    if (request.method === "PUT") stored = body;
    if (request.method === "GET") response.writeHead(200, { "content-length": stored.length }).end(stored);
    else response.writeHead(request.method === "PUT" ? 200 : 204).end();
  });
  await expect(store.probe()).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringMatching(/overwrites/),
  });
});

describe("a server that refuses checksum headers with 501", () => {
  const onStub = async (fault: Fault, checksums: boolean): Promise<BodyStore> => {
    const s3 = await startStubS3();
    s3.fault.now = fault;
    const store = openBodyStore("s3://bucket/prefix", { s3: { ...s3.options, checksums, sleep: async () => {} } });
    open.push(async () => {
      await store.close();
      await s3.close();
    });
    return store;
  };
  it("works as it is, and the probe says that it can't delete in batches", async () => {
    const store = await onStub(refusesChecksums, false);
    expect(await store.probe()).toEqual([expect.stringMatching(/one by one/)]);
  });
  it("is found out by the probe, which names the setting", async () => {
    const store = await onStub(refusesChecksums, true);
    await expect(store.probe()).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/needs PERDURE_S3_CHECKSUMS=false/) as string,
    });
  });
  it("and one that demands them as well", async () => {
    const demands: Fault = (asked) =>
      asked.method === "PUT" &&
      asked.headers["x-amz-checksum-crc32"] === undefined &&
      failsWith(400, "InvalidRequest")(asked);
    await expect((await onStub(demands, false)).probe()).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/needs PERDURE_S3_CHECKSUMS=true/) as string,
    });
    expect(await (await onStub(demands, true)).probe()).toEqual([]);
  });
});

it("pauses grow to a ceiling, and no two clients pause alike", () => {
  const pauses = Array.from({ length: 30 }, (_, n) => [backoffMs(n + 1, 0), backoffMs(n + 1, 0.999)] as const);
  for (const [least, most] of pauses) expect([least >= 50, most > least, most <= 5_000]).toEqual([true, true, true]);
  expect(pauses.at(-1)?.[0]).toBe(2_500);
});

describeS3("a real S3 server with wrong settings", (server) => {
  const openWith = async (options: S3Options, uri?: string) => {
    const store = openBodyStore(uri ?? (await newS3Uri(server)), { s3: { ...s3Options(server), ...options } });
    open.push(() => store.close());
    return store;
  };
  const wrongSettings: [string, S3Options, RegExp, string?][] = [
    ["secret", { credentials: { accessKeyId: server.accessKeyId, secretAccessKey: SECRET } }, /secret key is wrong/],
    ["key", { credentials: { accessKeyId: "NOBODY", secretAccessKey: SECRET } }, /access key is not known/],
    ["bucket", {}, /no such bucket/, "s3://perdure-no-such-bucket/p"],
  ];
  it.each(wrongSettings)("names the wrong %s, without secrets", async (_, options, message, uri) => {
    const store = await openWith(options, uri);
    const error: unknown = await store.probe().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "config_invalid", message: expect.stringMatching(message) });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error)) + String((error as Error).stack)).not.toContain(
      SECRET,
    );
  });
  it("names the option that an endpoint needs", async () => {
    const named = server.endpoint.replace("127.0.0.1", "localhost");
    const store = await openWith({ endpoint: named, forcePathStyle: false, attempts: 1 });
    await expect(store.probe()).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/PERDURE_S3_FORCE_PATH_STYLE=true/),
    });
  });
});

it("refuses URIs it can't mean, without repeating them", () => {
  const wrong = [
    "s3://",
    "s3://UPPER/x",
    `s3://key:${SECRET}@bucket/x`,
    "s3://bucket/../x",
    "s3://b/ü",
    "file://host/x",
  ];
  for (const uri of [...wrong, "file:///", "file:relative", "http://x", "", "/plain/path", "memory:x"]) {
    const opening = () => openBodyStore(uri);
    expect(opening, uri).toThrow(expect.objectContaining({ code: "config_invalid" }));
    expect(opening).not.toThrow(SECRET);
  }
  expect(openBodyStore("s3://bucket/a/b/").uri).toBe("s3://bucket/a/b");
  expect(openBodyStore("file:///tmp/some%20where").uri).toBe("file:///tmp/some%20where");
});
