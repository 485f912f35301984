// The door by itself: how bodies and queries are parsed, and what errors look like on the wire.
import { Hono } from "hono";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ApiEnv } from "../../src/api/env.js";
import { errorResponse } from "../../src/api/http-errors.js";
import { flag, IGNORED_FIELDS_HEADER, integer, list, pathId, readBody, readQuery } from "../../src/api/request.js";
import { absent, checkpoint, jsonObject, object, ttl } from "../../src/api/schemas/parts.js";
import type { Log, LogFields } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";

function door(log: Partial<Log> = {}) {
  const quiet = { debug() {}, info() {}, warn() {}, error() {}, ...log };
  const app = new Hono<ApiEnv>();
  app.onError((error, c) => errorResponse(error, c, quiet));
  const schema = z.object({
    metadata: absent(jsonObject),
    checkpoint: absent(checkpoint),
    context: absent(object),
    ttl: absent(ttl),
  });
  app.post("/body", async (c) => c.json((await readBody(c, schema)) as object));
  app.get("/id/:thread_id", (c) => c.text(pathId(c, "thread_id")));
  const query = z.object({ select: list, deep: flag, limit: integer({ min: 1, max: 10, fallback: 5 }) });
  app.get("/query", (c) => c.json(readQuery(c, query)));
  app.get("/throw/:what", (c) => {
    if (c.req.param("what") === "secret") throw new Error("the prompt was: hello");
    throw new EngineError("not_found", "Assistant not found", { details: { assistant_id: "x" } });
  });
  return app;
}

const post = (body: string, headers: Record<string, string> = {}) =>
  door().request("/body", { method: "POST", body, headers });

describe("bodies", () => {
  test("text/plain is JSON, an empty body is an empty object", async () => {
    const text = await post('{"metadata":{"a":1}}', { "content-type": "text/plain" });
    expect(await text.json()).toEqual({ metadata: { a: 1 } });
    expect((await post("")).status).toBe(200);
  });

  test("what is not JSON is refused in words", async () => {
    const response = await post("{nope");
    expect(response.status).toBe(400);
    expect(await response.text()).toBe("The request body is not valid JSON");
  });

  test.each([
    ['{"metadata":5}', "metadata: "],
    ['{"checkpoint":{"checkpoint_id":"7"}}', "checkpoint.checkpoint_id: must be a UUID"],
    ['{"ttl":0}', "ttl: must be minutes, or {ttl: minutes, strategy: delete or keep_latest}, ten years at most"],
    ['{"metadata":{"a":{"b":["ok","x\\u0000"]}}}', "metadata.a.b[1]: must not contain NUL or a lone surrogate"],
    ['{"metadata":{"a\\u0000b":1}}', "metadata.a\\u0000b: keys must not contain NUL"],
    ['{"metadata":{"a":"\\ud800"}}', "metadata.a: must not contain NUL or a lone surrogate"],
    ["[1]", "expected object"],
    ["null", "expected object"],
  ])("%s is refused with its place", async (body, message) => {
    const response = await post(body);
    expect(response.status).toBe(422);
    expect(await response.text()).toContain(message);
  });

  test("metadata nested without end is refused, not recursed into", async () => {
    const deep = `{"metadata":${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}}`;
    const response = await post(deep);
    expect(response.status).toBe(422);
    expect(await response.text()).toContain("nested deeper than");
  });

  test("what would not come back as it was sent is refused with its place", async () => {
    const deep = (levels: number) => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
    for (const [input, status, says] of [
      [deep(400), 200, /^{/],
      [deep(600), 422, /^input\[0\]\[0\].*…: must not be nested deeper than 500 levels$/],
      ["1e999", 422, /^input: must be a number within/],
      ['{"a":[1,-1e999]}', 422, /^input\.a\[1\]: must be a number within/],
    ] as const) {
      const response = await post(`{"input":${input}}`);
      const text = await response.text();
      expect([response.status, text]).toEqual([status, expect.stringMatching(says)]);
    }
  });

  test("a key named __proto__ is refused in metadata, which is merged by key, and kept in what is content", async () => {
    const refused = await post('{"metadata":{"a":[{"__proto__":{"b":1}}]}}');
    expect([refused.status, await refused.text()]).toEqual([422, "metadata.a[0].__proto__: must have another name"]);
    const kept = '{"context":{"__proto__":{"a":1},"constructor":{"prototype":2}}}';
    expect(await (await post(kept)).text()).toBe(kept);
  });

  test("a body that breaks off is the client's doing, and nothing for the log", async () => {
    const lines: LogFields[] = [];
    const note = (fields: LogFields) => void lines.push(fields);
    const body = new ReadableStream({
      start: (controller) => controller.error(Object.assign(new Error("aborted"), { code: "ECONNRESET" })),
    });
    const broken = new Request("http://perdure.test/body", { method: "POST", body, duplex: "half" });
    const response = await door({ warn: note, error: note }).request(broken);
    expect([response.status, await response.text()]).toEqual([400, "The request body ended early"]);
    expect(lines).toEqual([]);
  });

  test("null means not given", async () => {
    const response = await post('{"metadata":null,"ttl":null,"checkpoint":{"checkpoint_id":null}}');
    expect(await response.json()).toEqual({ checkpoint: {} });
  });

  test("fields nobody knows are let through and named", async () => {
    const response = await post('{"metadata":{"mine":1},"strict_x":1,"checkpoint":{"thread_ts":"1"},"ü":1}');
    expect(response.status).toBe(200);
    expect(response.headers.get(IGNORED_FIELDS_HEADER)).toBe("strict_x, checkpoint.thread_ts, %C3%BC");
    expect((await post('{"metadata":{}}')).headers.get(IGNORED_FIELDS_HEADER)).toBeNull();
  });
});

describe("queries and paths", () => {
  test.each(["select=a&select=b", "select=a,b", `select=${encodeURIComponent('["a","b"]')}`])(
    "a list arrives as %s",
    async (search) => {
      const response = await door().request(`/query?${search}`);
      expect(await response.json()).toEqual({ select: ["a", "b"], deep: false, limit: 5 });
    },
  );

  test.each(["true", "1", "TRUE", "yes"])("%s is true", async (word) => {
    expect(await (await door().request(`/query?deep=${word}`)).json()).toMatchObject({ deep: true });
  });

  test.each([
    ["deep=maybe", "deep: must be true or false"],
    ["limit=0", "limit: must be a whole number from 1 to 10"],
    ["limit=1e1", "limit: must be a whole number"],
    ["select=[1]", "select: must be a list"],
  ])("%s is refused", async (search, message) => {
    const response = await door().request(`/query?${search}`);
    expect(response.status).toBe(422);
    expect(await response.text()).toContain(message);
  });

  test("an id that is no UUID is refused by name, in any case it is lower case", async () => {
    const bad = await door().request("/id/abc%00");
    expect([bad.status, await bad.text()]).toEqual([422, "thread_id: must be a UUID"]);
    const good = await door().request("/id/AAAAAAAA-0000-4000-8000-000000000000");
    expect(await good.text()).toBe("aaaaaaaa-0000-4000-8000-000000000000");
  });
});

describe("errors", () => {
  test("are plain text, as stock clients match them", async () => {
    const response = await door().request("/throw/known");
    expect([response.status, await response.text()]).toEqual([404, "Assistant not found"]);
    expect(response.headers.get("content-type")).toContain("text/plain");
  });

  test("are JSON for who asks for JSON", async () => {
    const response = await door().request("/throw/known", { headers: { accept: "application/json" } });
    expect(await response.json()).toEqual({
      detail: "Assistant not found",
      code: "not_found",
      details: { assistant_id: "x" },
    });
  });

  test("of our own making show nothing of what they quote, to the caller or the log", async () => {
    const lines: LogFields[] = [];
    const response = await door({ error: (fields) => lines.push(fields) }).request("/throw/secret");
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("hello");
    expect(lines).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain("hello");
    expect(lines[0]).toMatchObject({ error: "Error", route: "/throw/:what" });
  });
});
