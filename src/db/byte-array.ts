// A bytea[] parameter as the wire takes it in binary: the driver would send it as text, twice the bytes in hexadecimal,
// which costs both sides more than storing them does.

const BYTEA_OID = 17;
const HEADER_BYTES = 20;
const NULL_LENGTH = -1;

/** For a parameter of type bytea[] (the statement must say so: `$1::bytea[]`). */
export function byteArray(items: readonly (Uint8Array | null)[]): Buffer {
  const size = items.reduce((sum, item) => sum + 4 + (item?.length ?? 0), HEADER_BYTES);
  const bytes = Buffer.allocUnsafe(size);
  // Dimensions, whether there are nulls, the type of an element; then of the only dimension its length and first index.
  let at = bytes.writeInt32BE(items.length === 0 ? 0 : 1, 0);
  at = bytes.writeInt32BE(items.includes(null) ? 1 : 0, at);
  at = bytes.writeInt32BE(BYTEA_OID, at);
  if (items.length === 0) return bytes.subarray(0, at);
  at = bytes.writeInt32BE(items.length, at);
  at = bytes.writeInt32BE(1, at);
  for (const item of items) {
    at = bytes.writeInt32BE(item === null ? NULL_LENGTH : item.length, at);
    if (item === null) continue;
    bytes.set(item, at);
    at += item.length;
  }
  return bytes;
}
