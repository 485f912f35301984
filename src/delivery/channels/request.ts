// One request to a provider, told apart by the only thing that matters afterwards: was it answered, did it certainly not leave, or
// does nobody know.
const NEVER_LEFT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);
/** An answer is a few hundred bytes; a page of a proxy may be any length. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/** Whether a request that failed with this code certainly didn't leave. */
export const neverLeft = (code: string): boolean => NEVER_LEFT.has(code);

export type ProviderAnswer =
  | Readonly<{ kind: "answer"; status: number; headers: Headers; text: string }>
  | Readonly<{ kind: "not_sent"; code: string }>
  | Readonly<{ kind: "unknown"; code: string }>;

/** Sends once; never throws, never follows a redirect, never tries again. */
export async function request(url: string, init: RequestInit): Promise<ProviderAnswer> {
  try {
    const response = await fetch(url, { ...init, redirect: "manual" });
    const text = await readText(response);
    return { kind: "answer", status: response.status, headers: response.headers, text };
  } catch (error) {
    const code = codeOf(error);
    // Whatever isn't known not to have left may have.
    return { kind: neverLeft(code) ? "not_sent" : "unknown", code };
  }
}

/** What a request that was not answered means for the message. */
export function unanswered(answer: Exclude<ProviderAnswer, { kind: "answer" }>) {
  return answer.kind === "not_sent"
    ? ({ kind: "not_sent", code: answer.code, afterMs: null, spends: true } as const)
    : ({ kind: "unknown", code: answer.code } as const);
}

/** The answer as an object; undefined when it isn't JSON, as when a proxy answers. */
export function asRecord(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** `Retry-After` in ms, from seconds or a date; null when there is none. */
export function retryAfterMs(headers: Headers, nowMs: number): number | null {
  const text = headers.get("retry-after");
  if (text === null) return null;
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

/** The code deepest in the chain of causes: fetch wraps what the socket said. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const inner = error.cause === undefined ? "failed" : codeOf(error.cause);
  if (inner !== "failed") return inner;
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return code;
  return error.name === "AbortError" || error.name === "TimeoutError" ? "timeout" : "failed";
}

async function readText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    text += decoder.decode(value, { stream: true });
    if (bytes <= MAX_ANSWER_BYTES) continue;
    await reader.cancel().catch(() => undefined);
    return text;
  }
}
