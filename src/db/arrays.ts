// Array parameters as the wire takes them. The driver would send each as text: bytes in hexadecimal, twice as many, and every
// quote and backslash of a text escaped, which costs both sides more than storing them does.

/** Types whose binary form is their bytes. */
const OIDS = { bytea: 17, text: 25, json: 114 };
const HEADER_BYTES = 20;
const NULL_LENGTH = -1;

/** For a parameter of such an array type (the statement must say so: `$1::bytea[]`). */
export function binaryArray(type: keyof typeof OIDS, items: readonly (Uint8Array | string | null)[]): Buffer {
  let size = HEADER_BYTES;
  for (const item of items) size += 4 + (item === null ? 0 : Buffer.byteLength(item));
  const bytes = Buffer.allocUnsafe(size);
  // Dimensions, whether there are nulls, the type of an element; then of the only dimension its length and first index.
  let at = bytes.writeInt32BE(items.length === 0 ? 0 : 1, 0);
  at = bytes.writeInt32BE(items.includes(null) ? 1 : 0, at);
  at = bytes.writeInt32BE(OIDS[type], at);
  if (items.length === 0) return bytes.subarray(0, at);
  at = bytes.writeInt32BE(items.length, at);
  at = bytes.writeInt32BE(1, at);
  for (const item of items) {
    if (item === null) {
      at = bytes.writeInt32BE(NULL_LENGTH, at);
      continue;
    }
    const length = typeof item === "string" ? bytes.write(item, at + 4) : item.length;
    if (typeof item !== "string") bytes.set(item, at + 4);
    at = bytes.writeInt32BE(length, at) + length;
  }
  return bytes;
}

/** For arrays of ids and numbers, whose texts need no escaping: `{1,2,null}`. */
export function plainArray(items: readonly (string | number | null)[]): string {
  return `{${items.map((item) => item ?? "null").join(",")}}`;
}
