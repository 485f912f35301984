// `perdure keys`: who holds one speaks for its tenant over HTTP, as far as its scopes go.
import type { Deps } from "../core/deps.js";
import type { ApiKeyId, TenantId } from "../core/ids.js";
import { createApiKey, type MadeKey, noKey, rotateApiKey } from "../engine/commands/create-api-key.js";
import { listApiKeys, revokeApiKey } from "../keys/api-keys.js";
import { KEY_FRESH_MS } from "../keys/cached.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;
type Key = Readonly<{ tenantId: TenantId; apiKeyId: ApiKeyId }>;

export async function keysCreate(
  deps: Deps,
  asked: Readonly<{ tenantId: string; name: string; scopes: readonly string[]; expiresInMs: number | null }>,
  print: Print,
): Promise<void> {
  tell(await createApiKey(deps, asked), print);
}

export async function keysLs(deps: Deps, filter: Readonly<{ tenantId: TenantId | null }>, print: Print): Promise<void> {
  const keys = await listApiKeys(deps.db, filter);
  if (print.json) return print.line(json(keys.map(wire)));
  const rows = keys.map(({ apiKeyId, tenantId, name, scopes, revokedAt, over, ...at }) => ({
    key: apiKeyId,
    tenant: tenantId,
    name,
    scopes: scopes.join(","),
    status: revokedAt === null ? (over ? "expired" : "in use") : "revoked",
    expires: at.expiresAt,
    "last used": at.lastUsedAt,
  }));
  print.line(table(rows, "There are no keys; `perdure keys create <name>` makes one."));
}

export async function keysRotate(deps: Deps, key: Key & Readonly<{ keepMs: number }>, print: Print): Promise<void> {
  tell(await rotateApiKey(deps, key), print);
}

export async function keysRevoke(deps: Deps, key: Key, print: Print): Promise<void> {
  const row = await revokeApiKey(deps.db, key);
  if (row === undefined) throw noKey(key);
  if (print.json) return print.line(json(wire(row)));
  print.line(`Revoked: it opens nothing any more, in every process within ${KEY_FRESH_MS / 1_000} seconds.`);
}

/** The key on stdout, alone, for pipes; what to know of it beside that. */
function tell({ row, key }: MadeKey, print: Print): void {
  if (print.json) return print.line(json({ ...wire(row), key }));
  const until = row.expiresAt === null ? "until it is revoked" : `until ${row.expiresAt.toISOString()}`;
  print.note(`perdure: ${row.name}, tenant ${row.tenantId}, ${row.scopes.join(",")}, ${until}. It isn't shown again:`);
  print.line(key);
}
