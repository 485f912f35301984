// The two questions about a failure, answered in one place: may we try again, and when.

const TRANSIENT_SQLSTATE = new Set([
  "57P01",
  "57P02",
  "57P03", // server shutting down, crashed, starting up
  "25006", // read only: a failover left us on the old primary
  "40001",
  "40P01", // serialisation failure, deadlock
  "55P03",
  "57014", // lock not available, statement timeout: the server is slow, or somebody frozen holds the lock
]);
/** Connection exceptions, and insufficient resources: full disk, out of memory, too many connections. */
const TRANSIENT_CLASS = new Set(["08", "53"]);
const TRANSIENT_SYSTEM = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ECONNABORTED",
]);

/** True when the same statement may work if it is sent again: the server or the way to it was away. */
export function isTransientDbError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== "string") return false;
  return (
    TRANSIENT_SQLSTATE.has(code) ||
    TRANSIENT_SYSTEM.has(code) ||
    (code.length === 5 && TRANSIENT_CLASS.has(code.slice(0, 2))) ||
    code === "unavailable"
  );
}

/** Milliseconds before try `n` (1 is the first retry): doubling from `baseMs` to `capMs`, with full jitter on the upper half. */
export function backoffMs(n: number, random: number, baseMs = 100, capMs = 5_000): number {
  const full = Math.min(capMs, baseMs * 2 ** (n - 1));
  return full / 2 + (full / 2) * random;
}
