// Proofs that a request is from whom it says, compared in a time that tells nothing.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** Of texts of any length. */
export function isSame(a: string, b: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}

export function hmacSha256(secret: string | Buffer, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const hmac = createHmac("sha256", secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}
