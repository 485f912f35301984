// What a failed connection or statement becomes: the server's own error with its SQLSTATE in `code`, or `unavailable`.
import pg from "pg";
import { EngineError } from "../core/errors.js";

const LOGIN_REFUSED = new Set(["28000", "28P01", "3D000"]); // user, password, database

/** The driver's errors carry no code when a connection breaks or a read times out; callers decide by code. */
export function asDbError(error: unknown): unknown {
  if (error instanceof pg.DatabaseError || error instanceof EngineError || isOurFault(error)) return error;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return new EngineError("unavailable", `Postgres can't be reached: ${String(code ?? message)}`, { cause: error });
}

/** The same for a connection that couldn't be made: a refused login is a wrong configuration, not an outage. */
export function asConnectError(error: unknown, url: string, setting = "DATABASE_URL"): unknown {
  const at = `Postgres at ${placeOf(url)}`;
  if (error instanceof pg.DatabaseError && LOGIN_REFUSED.has(error.code ?? "")) {
    const why = `${error.code}: ${error.message}`;
    return new EngineError("config_invalid", `${at} refused the login (${why}). Check ${setting}.`, { cause: error });
  }
  const known = asDbError(error);
  if (known === error) return error;
  const { code, message } = error as { code?: unknown; message?: unknown };
  const why = String(code ?? message);
  return new EngineError("unavailable", `${at} can't be reached (${why}). Start it, or check ${setting}.`, {
    cause: error,
  });
}

/** Host and port only: a URL holds a password. */
function placeOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname || "localhost"}:${port || "5432"}`;
}

/** True when the connection can't be used again: it broke, the server ends it, or it leads to a read-only server. */
export function breaksConnection(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return !isOurFault(error);
  const { code = "", severity } = error;
  return severity === "FATAL" || severity === "PANIC" || code === "25006" || code.startsWith("08");
}

/** A value that can't be sent or read: the driver says so before or after the statement, the connection is fine. */
function isOurFault(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError;
}
