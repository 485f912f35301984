// Bytes under a key, in segments that are opened each on its own, so that a range of an object is read without the rest.
// A segment: `PDE`, 1 byte flags (1: the last one), 8 bytes id of the key, 12 bytes nonce, the ciphertext, 16 bytes tag
// (AES-256-GCM). What it belongs to is authenticated with it: the object's name, its number, its flags. Each object has a key of its
// own, made from its tenant's by its name, which is made from the secret by the tenant's; both by HKDF-SHA256.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { EngineError } from "../core/errors.js";

/** Of the content, in one segment. */
export const SEGMENT_BYTES = 65_536;
const HEAD_BYTES = 24;
const TAG_BYTES = 16;
/** Of the object, for one segment. */
export const SEALED_BYTES = HEAD_BYTES + SEGMENT_BYTES + TAG_BYTES;
const MAGIC = Buffer.from("PDE");
const LAST = 1;
const SECRET_BYTES = 32;

/** A secret and what it is called in objects that were sealed with it. */
export type SecretKey = Readonly<{ id: string; secret: Buffer }>;

/** 32 bytes, as hex or base64. Throws `config_invalid` naming the setting, never the value. */
export function parseSecretKey(text: string, setting: string): SecretKey {
  const secret = Buffer.from(text, /^[0-9a-f]{64}$/i.test(text) ? "hex" : "base64");
  if (secret.length !== SECRET_BYTES || !/^[A-Za-z0-9+/_-]+=*$/.test(text)) {
    throw new EngineError(
      "config_invalid",
      `${setting} must be 32 bytes in hex or base64, as \`openssl rand -base64 32\` makes them`,
    );
  }
  return { id: derive(secret, "perdure key id").subarray(0, 8).toString("hex"), secret };
}

export function isSealed(bytes: Uint8Array): boolean {
  return bytes.length >= HEAD_BYTES + TAG_BYTES && MAGIC.equals(bytes.subarray(0, MAGIC.length));
}

/** The id of the key that sealed this. */
export function keyIdOf(sealed: Uint8Array): string {
  return Buffer.from(sealed.subarray(4, 12)).toString("hex");
}

/** The whole object `name`, which begins with its tenant. */
export function seal(key: SecretKey, name: string, bytes: Uint8Array): Buffer {
  const objectKey = keyOfObject(key, name);
  const count = Math.max(1, Math.ceil(bytes.length / SEGMENT_BYTES));
  const sealed = Array.from({ length: count }, (_, index) => {
    const part = bytes.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES);
    const flags = index === count - 1 ? LAST : 0;
    const nonce = randomBytes(12);
    const head = Buffer.concat([MAGIC, Buffer.of(flags), Buffer.from(key.id, "hex"), nonce]);
    const cipher = createCipheriv("aes-256-gcm", objectKey, nonce);
    cipher.setAAD(contextOf(name, index, flags));
    return Buffer.concat([head, cipher.update(part), cipher.final(), cipher.getAuthTag()]);
  });
  return Buffer.concat(sealed);
}

/**
 * The content of the segments from `first` on; `whole` demands that they end with the last one. Throws `body_corrupt` when
 * something was changed, cut off or put in another's place.
 */
export function unseal(
  key: SecretKey,
  name: string,
  sealed: Uint8Array,
  { first, whole }: Readonly<{ first: number; whole: boolean }>,
): Buffer {
  const objectKey = keyOfObject(key, name);
  const parts: Buffer[] = [];
  let flags = 0;
  for (let at = 0, index = first; at < sealed.length; at += SEALED_BYTES, index++) {
    const segment = sealed.subarray(at, at + SEALED_BYTES);
    if (!isSealed(segment) || flags === LAST) throw damaged(name);
    flags = segment[3] ?? 0;
    const decipher = createDecipheriv("aes-256-gcm", objectKey, segment.subarray(12, HEAD_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(contextOf(name, index, flags));
    decipher.setAuthTag(segment.subarray(segment.length - TAG_BYTES));
    try {
      parts.push(decipher.update(segment.subarray(HEAD_BYTES, segment.length - TAG_BYTES)), decipher.final());
    } catch {
      throw damaged(name);
    }
  }
  if (whole && flags !== LAST) throw damaged(name);
  return Buffer.concat(parts);
}

function keyOfObject({ secret }: SecretKey, name: string): Buffer {
  const tenant = name.slice(0, name.indexOf("/"));
  return derive(derive(secret, `perdure tenant ${tenant}`), `perdure object ${name}`);
}

function derive(secret: Buffer, what: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", what, SECRET_BYTES));
}

function contextOf(name: string, index: number, flags: number): Buffer {
  return Buffer.from(`${name}\0${index}\0${flags}`);
}

export function damaged(name: string): EngineError {
  return new EngineError(
    "body_corrupt",
    `${name} can't be decrypted: the object is damaged, or was put in another's place`,
    {
      details: { key: name },
    },
  );
}
