// What kind of failure an error is, by code, status, SQLSTATE, name and cause; never by its text, which is for people.
import { isTransientDbError } from "./retry.js";

/**
 * `outage`: what was called is overloaded or away; waiting helps. `retryable`: the same may work next time. `content`: what was
 * sent can't be accepted. `permanent`: it would fail again, as everything does of which nothing is known.
 */
export type FailureClass = "outage" | "retryable" | "content" | "permanent";

export type Failure = Readonly<{
  class: FailureClass;
  /** What a client can test for; null when nothing is known of it. */
  code: string | null;
  /** What the other side asked to wait for. */
  retryAfterMs: number | null;
  /** Host and port that couldn't be reached, when that is what happened. */
  host: string | null;
}>;

type Facts = Readonly<Record<string, unknown>>;
type Kind = readonly [FailureClass, string];

/** A call that took longer than its class may. Made by the engine. */
export class CallTimeout extends Error {
  override readonly name = "CallTimeout";
  readonly code: "tool_timeout" | "model_timeout" | "token_timeout";
  constructor(what: "tool" | "model" | "token", name: string, ms: number) {
    const took = what === "token" ? "sent nothing" : "did not end";
    super(`${what === "tool" ? "tool" : "model"} ${name} ${took} for ${ms} ms and was cut off`);
    this.code = `${what}_timeout`;
  }
}

/** Refusals that their own code tells apart, whatever the status says. */
const BY_CODE: Readonly<Record<string, Kind>> = {
  insufficient_quota: ["permanent", "quota_exhausted"],
  billing_error: ["permanent", "quota_exhausted"],
  context_length_exceeded: ["content", "context_length"],
  CONTEXT_OVERFLOW: ["content", "context_length"],
  string_above_max_length: ["content", "context_length"],
  request_too_large: ["content", "context_length"],
  content_filter: ["content", "content_refused"],
  content_policy_violation: ["content", "content_refused"],
  INVALID_PROMPT_INPUT: ["content", "content_refused"],
  INVALID_TOOL_RESULTS: ["content", "content_refused"],
  MESSAGE_COERCION_FAILURE: ["content", "content_refused"],
  OUTPUT_PARSING_FAILURE: ["content", "content_refused"],
  overloaded_error: ["outage", "overloaded"],
  rate_limit_error: ["outage", "rate_limited"],
  rate_limit_exceeded: ["outage", "rate_limited"],
  ECONNREFUSED: ["outage", "unreachable"],
  EHOSTUNREACH: ["outage", "unreachable"],
  ENETUNREACH: ["outage", "unreachable"],
  EAI_AGAIN: ["outage", "unreachable"],
  // A name that nobody knows is more often misspelt than away.
  ENOTFOUND: ["retryable", "unreachable"],
  tool_timeout: ["retryable", "tool_timeout"],
  model_timeout: ["retryable", "model_timeout"],
  token_timeout: ["retryable", "token_timeout"],
  budget_exceeded: ["permanent", "budget_exceeded"],
  ABORT_ERR: ["permanent", "aborted"],
};
const CONNECTION = /^(ECONNRESET|ECONNABORTED|EPIPE|ETIMEDOUT|ESOCKETTIMEDOUT|UND_ERR_\w+|ERR_HTTP2_\w+)$/;

const BY_NAME: Readonly<Record<string, Kind>> = {
  ContextOverflowError: ["content", "context_length"],
  TimeoutError: ["retryable", "timeout"],
  APIConnectionTimeoutError: ["retryable", "timeout"],
  APIConnectionError: ["retryable", "connection_lost"],
  ThrottlingException: ["outage", "rate_limited"],
  ServiceUnavailableException: ["outage", "overloaded"],
  ModelNotReadyException: ["outage", "overloaded"],
};

const BY_STATUS: Readonly<Record<number, Kind>> = {
  400: ["content", "content_refused"],
  401: ["permanent", "unauthorized"],
  402: ["permanent", "quota_exhausted"],
  403: ["permanent", "unauthorized"],
  404: ["permanent", "not_there"],
  408: ["retryable", "timeout"],
  409: ["retryable", "server_error"],
  413: ["content", "context_length"],
  422: ["content", "content_refused"],
  425: ["retryable", "server_error"],
  429: ["outage", "rate_limited"],
  503: ["outage", "overloaded"],
  529: ["outage", "overloaded"],
};

/** How far down a chain of causes something can say what happened. */
const MAX_CAUSES = 8;
/** Whoever asks for more is asked again after this. */
const MAX_RETRY_AFTER_MS = 60 * 60_000;
/** How LangChain marks what it knows of an error. */
const LANGCHAIN_RETRYABLE = Symbol.for("langchain.errors.retryable");

/** Never throws: an error can be anything. `nowMs` is for a Retry-After that names an instant. */
export function classify(error: unknown, nowMs: number): Failure {
  try {
    return classifyChain(chainOf(error), nowMs);
  } catch {
    return { class: "permanent", code: null, retryAfterMs: null, host: null };
  }
}

function classifyChain(chain: readonly Facts[], nowMs: number): Failure {
  // What a code says is more exact than a status, and what a status says than a name; each by the outermost that has it.
  const kind = first(chain, ofCode) ?? first(chain, ofStatus) ?? first(chain, ofName) ?? first(chain, ofMark) ?? null;
  return {
    class: kind?.[0] ?? "permanent",
    code: kind?.[1] ?? null,
    retryAfterMs: first(chain, (link) => retryAfterOf(link, nowMs)) ?? null,
    host: first(chain, hostOf) ?? null,
  };
}

function first<T>(chain: readonly Facts[], of: (link: Facts) => T | undefined): T | undefined {
  for (const link of chain) {
    const found = of(link);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The error, its causes, and those of several that failed together. */
function chainOf(error: unknown): Facts[] {
  const chain: Facts[] = [];
  const waiting: unknown[] = [error];
  while (waiting.length > 0 && chain.length < MAX_CAUSES) {
    const next = waiting.shift();
    if (typeof next !== "object" || next === null || chain.includes(next as Facts)) continue;
    const link = next as Facts;
    chain.push(link);
    waiting.push(link["cause"], ...(Array.isArray(link["errors"]) ? (link["errors"] as unknown[]) : []));
  }
  return chain;
}

function ofCode(link: Facts): Kind | undefined {
  for (const code of codesOf(link)) {
    const known = Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;
    if (known !== undefined) return known;
    if (CONNECTION.test(code)) return ["retryable", "connection_lost"];
    if (code.length === 5 && isTransientDbError({ code })) return ["retryable", "database_away"];
  }
  return undefined;
}

/** SDKs have them at the error, or in what the other side answered: {error: {type}}, one deep or two. */
function codesOf(link: Facts): string[] {
  const answer = objectOf(link["error"]);
  const inner = objectOf(answer?.["error"]);
  const said = [
    link["code"],
    link["lc_error_code"],
    answer?.["code"],
    answer?.["type"],
    inner?.["code"],
    inner?.["type"],
  ];
  return said.filter((code) => typeof code === "string");
}

function ofStatus(link: Facts): Kind | undefined {
  const response = objectOf(link["response"]);
  const meta = objectOf(link["$metadata"]);
  for (const status of [link["status"], link["statusCode"], response?.["status"], meta?.["httpStatusCode"]]) {
    if (typeof status !== "number" || status < 400 || status > 599) continue;
    return BY_STATUS[status] ?? (status >= 500 ? ["retryable", "server_error"] : ["permanent", "refused"]);
  }
  return undefined;
}

function ofName(link: Facts): Kind | undefined {
  // Stock SDKs leave `name` at "Error": their class has it.
  const names = [link["name"], (link["constructor"] as { name?: unknown } | undefined)?.name];
  for (const name of names) if (typeof name === "string" && Object.hasOwn(BY_NAME, name)) return BY_NAME[name];
  return undefined;
}

function ofMark(link: Facts): Kind | undefined {
  const mark: unknown = Object.getOwnPropertyDescriptor(link, LANGCHAIN_RETRYABLE)?.value;
  return mark === true ? ["retryable", "server_error"] : undefined;
}

function retryAfterOf(link: Facts, nowMs: number): number | undefined {
  const response = objectOf(link["response"]);
  const headers = link["headers"] ?? response?.["headers"];
  const inMs = Number(headerOf(headers, "retry-after-ms") ?? Number.NaN);
  if (inMs >= 0) return Math.min(inMs, MAX_RETRY_AFTER_MS);
  const text = headerOf(headers, "retry-after");
  if (text === undefined) return undefined;
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return ms >= 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : undefined;
}

function headerOf(headers: unknown, name: string): string | undefined {
  const fields = objectOf(headers);
  if (fields === undefined) return undefined;
  const get: unknown = fields["get"];
  const value: unknown = typeof get === "function" ? get.call(fields, name) : fields[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

function hostOf(link: Facts): string | undefined {
  const { hostname, address, port } = link;
  const host = typeof hostname === "string" ? hostname : address;
  if (typeof host !== "string" || !/^[\w.:-]{1,200}$/.test(host)) return undefined;
  return typeof port === "number" ? `${host}:${port}` : host;
}

function objectOf(value: unknown): Facts | undefined {
  return typeof value === "object" && value !== null ? (value as Facts) : undefined;
}
