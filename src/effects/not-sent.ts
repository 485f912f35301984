// Which failures of a call say that it was not done. All others leave it open: a reset connection, a timeout, a 500.

/** Throw it from an effect that certainly was not done: the other side refused it before it did anything. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** As Node's fetch and sockets name what never left: no connection was made. Whatever isn't here may have arrived. */
const NEVER_LEFT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID",
]);
const MAX_CAUSES = 8;

export function wasNotSent(error: unknown): boolean {
  let at = error;
  for (let depth = 0; depth < MAX_CAUSES && typeof at === "object" && at !== null; depth += 1) {
    const { name, code, cause } = at as { name?: unknown; code?: unknown; cause?: unknown };
    if (name === "NotSent" || (typeof code === "string" && NEVER_LEFT.has(code))) return true;
    at = cause;
  }
  return false;
}

/** What the ledger keeps of an error: never its text. */
export function codeOf(error: unknown): string {
  for (let at = error, depth = 0; depth < MAX_CAUSES && typeof at === "object" && at !== null; depth += 1) {
    const { code, cause } = at as { code?: unknown; cause?: unknown };
    if (typeof code === "string" && /^[\w.-]{1,60}$/.test(code)) return code;
    at = cause;
  }
  const name = error instanceof Error ? error.name : "error";
  return /^[\w.-]{1,60}$/.test(name) ? name : "Error";
}
