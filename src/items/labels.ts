// How labels of namespaces are written in PostgresStore's paths: none begins another, and nothing in one means anything to LIKE or to the path.
import type { TenantId } from "../core/ids.js";

/** `user_1` as `[user~5f1]`. */
export function written(label: string): string {
  const escaped = label.replaceAll(/[~[\]:.%_\\]/g, (char) => `~${char.charCodeAt(0).toString(16)}`);
  return `[${escaped}]`;
}

export function read(label: string): string {
  return label.slice(1, -1).replaceAll(/~([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}

/** Whose part of the store it is in: its first label says so. Null: nobody's, something else has written it. */
export function tenantOf(path: string): TenantId | null {
  const [root = ""] = path.split(":", 1);
  return /^\[.+\]$/.test(root) ? (read(root) as TenantId) : null;
}
