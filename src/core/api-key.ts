// API keys as text: `pdk_<tenant>.<id>.<secret>`. The tenant and the id say where to look, the secret is 256 random bits.
import { createHash, timingSafeEqual } from "node:crypto";
import type { ApiKeyId, TenantId } from "./ids.js";

const PREFIX = "pdk_";
const KEY = /^pdk_([a-z0-9][a-z0-9_-]{0,62})\.([A-Za-z0-9_-]{22})\.[A-Za-z0-9_-]{43}$/;
export const SECRET_BYTES = 32;

export type ReadKey = Readonly<{ tenantId: TenantId; apiKeyId: ApiKeyId; sha256: Buffer }>;

export function keyText(tenantId: TenantId, apiKeyId: ApiKeyId, secret: Buffer): string {
  const id = Buffer.from(apiKeyId.replaceAll("-", ""), "hex");
  return `${PREFIX}${tenantId}.${id.toString("base64url")}.${secret.toString("base64url")}`;
}

/** Whether it says of itself that it is one. */
export function looksLikeKey(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Undefined for what can't be one. */
export function readKey(text: string): ReadKey | undefined {
  const [, tenantId, id] = KEY.exec(text) ?? [];
  if (tenantId === undefined || id === undefined) return undefined;
  const hex = Buffer.from(id, "base64url").toString("hex");
  const apiKeyId = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  return { tenantId: tenantId as TenantId, apiKeyId: apiKeyId as ApiKeyId, sha256: keySha256(text) };
}

/** A plain hash: nobody guesses 256 bits, however quickly they may try. */
export function keySha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** In a time that says nothing about how near it came. */
export function sameHash(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
