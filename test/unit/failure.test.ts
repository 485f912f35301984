// Which failures may pass, by what errors of SDKs, Node and Postgres say in their fields.
import { ContextOverflowError } from "@langchain/core/errors";
import { expect, test } from "vitest";
import { CallTimeout, classify } from "../../src/core/failure.js";

const NOW = Date.parse("2026-11-30T00:00:00Z");
const of = (fields: object, cause?: unknown) => Object.assign(new Error("503 ECONNREFUSED timeout", { cause }), fields);
const fetchFailed = (code: string) => Object.assign(new TypeError("fetch failed"), { cause: of({ code }) });

test.each([
  ["an overloaded provider", of({ status: 529 }), "outage", "overloaded"],
  ["an unavailable one", of({ status: 503 }), "outage", "overloaded"],
  ["a rate limit", of({ status: 429 }), "outage", "rate_limited"],
  ["a rate limit that won't pass", of({ status: 429, code: "insufficient_quota" }), "permanent", "quota_exhausted"],
  ["Anthropic's word for overloaded", of({ error: { error: { type: "overloaded_error" } } }), "outage", "overloaded"],
  ["a refused connection below fetch", fetchFailed("ECONNREFUSED"), "outage", "unreachable"],
  [
    "several addresses that refuse",
    of({}, new AggregateError([of({ code: "ECONNREFUSED" })])),
    "outage",
    "unreachable",
  ],
  ["AWS that throttles", of({ name: "ThrottlingException" }), "outage", "rate_limited"],
  ["a server's error", of({ status: 500 }), "retryable", "server_error"],
  ["a gateway's", of({ response: { status: 502 } }), "retryable", "server_error"],
  ["a cut connection", fetchFailed("UND_ERR_SOCKET"), "retryable", "connection_lost"],
  ["a time-out of a signal", new DOMException("x", "TimeoutError"), "retryable", "timeout"],
  ["a serialisation failure", of({ code: "40001" }), "retryable", "database_away"],
  ["a call that was cut off", new CallTimeout("model", "m", 5), "retryable", "model_timeout"],
  ["a bad request", of({ status: 400 }), "content", "content_refused"],
  [
    "a conversation that is too long",
    of({ status: 400, code: "context_length_exceeded" }),
    "content",
    "context_length",
  ],
  ["LangChain's word for that", new ContextOverflowError(), "content", "context_length"],
  ["a key that isn't accepted", of({ status: 401 }), "permanent", "unauthorized"],
  ["a unique violation", of({ code: "23505" }), "permanent", null],
  [
    "LangGraph's step limit",
    of({ name: "GraphRecursionError", lc_error_code: "GRAPH_RECURSION_LIMIT" }),
    "permanent",
    null,
  ],
  ["a bug, whatever its text says", of({ name: "TypeError" }), "permanent", null],
  ["no error at all", "503", "permanent", null],
  [
    "what throws when it is read",
    new Proxy(
      {},
      {
        get: () => {
          throw new Error();
        },
      },
    ),
    "permanent",
    null,
  ], // prettier-ignore
])("%s", (_what, error, wanted, code) => {
  expect(classify(error, NOW)).toMatchObject({ class: wanted, code });
});

test("a cause that is its own cause ends the search", () => {
  const error = of({});
  error.cause = error;
  expect(classify(error, NOW).class).toBe("permanent");
});

test.each([
  ["seconds in a plain object", { "retry-after": "7" }, 7_000],
  ["milliseconds, which are more exact", new Headers({ "retry-after": "7", "retry-after-ms": "6500" }), 6_500],
  ["an instant", new Headers({ "retry-after": "Mon, 30 Nov 2026 00:00:30 GMT" }), 30_000],
  ["an hour at most", { "retry-after": "864000" }, 3_600_000],
  ["nothing that makes sense", { "retry-after": "soon" }, null],
])("Retry-After: %s", (_what, headers, ms) => {
  expect(classify(of({ status: 429, headers }), NOW).retryAfterMs).toBe(ms);
});

test("who couldn't be reached is told by the cause", () => {
  const refused = of({ code: "ECONNREFUSED", address: "127.0.0.1", port: 8080 });
  expect(classify(of({}, refused), NOW).host).toBe("127.0.0.1:8080");
});
