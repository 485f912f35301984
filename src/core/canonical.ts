// JSON in one spelling, so that what is equal has equal hashes.
import { createHash } from "node:crypto";

/** SHA-256 of the value's JSON with the keys of objects sorted. The value must be plain JSON data. */
export function canonicalSha256(value: unknown): Buffer {
  return createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest();
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]));
}
