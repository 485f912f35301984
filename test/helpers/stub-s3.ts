// A small S3 server in this process, which can be told to fail in every way servers do. It keeps what it acknowledged.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { S3Options } from "../../src/bodies/s3.js";

export type S3Request = Readonly<{
  method: string;
  key: string;
  headers: IncomingMessage["headers"];
  request: IncomingMessage;
  response: ServerResponse;
}>;
/** Handles a request instead of the server: true. What it does before that, with false, is as if it were the network. */
export type Fault = (asked: S3Request) => boolean;

export type StubS3 = Readonly<{
  options: S3Options;
  endpoint: string;
  objects: Map<string, Buffer>;
  /** Methods and keys of all requests, in order. */
  seen: string[];
  fault: { now: Fault };
  /** Each answer takes so long from now on. */
  slow(ms: number): void;
  close(): Promise<void>;
}>;

export const NO_FAULT: Fault = () => false;
export const failsWith =
  (status: number, code: string): Fault =>
  ({ method, response }) => {
    response.writeHead(status, { "content-type": "application/xml" });
    response.end(method === "HEAD" ? undefined : `<Error><Code>${code}</Code><Message>no</Message></Error>`);
    return true;
  };
/** As servers from before checksums do with requests that carry one, in whatever header. */
export const refusesChecksums: Fault = (asked) =>
  Object.keys(asked.headers).some((name) => /^x-amz-(checksum|sdk-checksum|trailer)|^content-md5/.test(name)) &&
  failsWith(501, "NotImplemented")(asked);
/** Takes half of an upload, or gives half of an object, and resets the connection; lets everything else pass. */
export const resetsHalfway =
  (objects: ReadonlyMap<string, Buffer>): Fault =>
  ({ method, key, request, response }) => {
    const object = objects.get(key);
    if (method === "PUT") request.once("data", () => request.socket.destroy());
    else if (method === "GET" && object !== undefined) {
      response.writeHead(200, { "content-length": object.length });
      response.write(object.subarray(0, object.length / 2), () => request.socket.destroy());
    } else return false;
    return true;
  };

/** Listens on a free port of 127.0.0.1 with one bucket, `bucket`. */
export async function startStubS3(): Promise<StubS3> {
  const objects = new Map<string, Buffer>();
  const seen: string[] = [];
  const fault = { now: NO_FAULT };
  let slowMs = 0;
  const server: Server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://stub");
    const key = decodeURIComponent(url.pathname.replace(/^\/bucket\/?/, ""));
    const method = request.method ?? "";
    seen.push(`${method} ${key}`);
    if (fault.now({ method, key, headers: request.headers, request, response })) return;
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const answerNow = () => answer(objects, url, key, request, response, Buffer.concat(parts));
      setTimeout(answerNow, slowMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
  return {
    ...{ objects, seen, fault, endpoint },
    options: { endpoint, region: "us-east-1", forcePathStyle: true, credentials },
    slow: (ms) => (slowMs = ms),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answer(
  objects: Map<string, Buffer>,
  url: URL,
  key: string,
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
): void {
  const stored = objects.get(key);
  const error = (status: number, code: string) =>
    void response.writeHead(status, { "content-type": "application/xml" }).end(`<Error><Code>${code}</Code></Error>`);
  if (request.method === "PUT") {
    if (stored !== undefined && request.headers["if-none-match"] === "*") return error(412, "PreconditionFailed");
    objects.set(key, body);
    return void response.writeHead(200).end();
  }
  if (request.method === "DELETE") {
    objects.delete(key);
    return void response.writeHead(204).end();
  }
  if (request.method === "POST" && url.searchParams.has("delete")) {
    for (const [, name = ""] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(name);
    return void response.writeHead(200).end("<DeleteResult></DeleteResult>");
  }
  if (key === "") {
    const prefix = url.searchParams.get("prefix") ?? "";
    const keys = [...objects.keys()].filter((name) => name.startsWith(prefix));
    const contents = keys.map((name) => `<Contents><Key>${name}</Key></Contents>`).join("");
    const list = `<ListBucketResult><IsTruncated>false</IsTruncated>${contents}</ListBucketResult>`;
    return void response.writeHead(200, { "content-type": "application/xml" }).end(list);
  }
  if (stored === undefined) return error(404, "NoSuchKey");
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  if (range === null) return void response.writeHead(200, { "content-length": stored.length }).end(stored);
  if (Number(range[1]) >= stored.length) return error(416, "InvalidRange");
  const part = stored.subarray(Number(range[1]), Number(range[2]) + 1);
  response
    .writeHead(206, { "content-length": part.length, "content-range": `bytes ${range[1]}-${range[2]}/*` })
    .end(part);
}
