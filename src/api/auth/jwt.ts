// Tokens that somebody else signs: checked against the issuer's keys, which are fetched when one is named that isn't known yet.
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from "jose";
import { type AuthUser, MAX_IDENTITY } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import { DEFAULT_TENANT, type TenantId } from "../../core/ids.js";
import { unauthorized } from "./refusal.js";
import { tenantNamed } from "./tenant.js";

export type JwtSettings = Readonly<{
  jwksUrl: string;
  issuer: string;
  /** Null: it may be for anybody. */
  audience: string | null;
  /** The claim that names the tenant; null: there is one. */
  tenantClaim: string | null;
  /** The claim that lists what the token may do; null: there is none. */
  permissionsClaim: string | null;
}>;

export type TokenUser = Readonly<{
  tenantId: TenantId;
  user: AuthUser;
  permissions: readonly string[] | null;
  /** Whether it has expired. */
  isOver: () => Promise<boolean>;
}>;

/** Nobody who knows an issuer's public key can sign with these. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
const FETCH_MS = 5_000;
/** For a key that isn't known the issuer is asked again so often at most. */
const COOLDOWN_MS = 30_000;
const SKEW_S = 5;

/** Rejects with 401 for what isn't a token of this issuer for us, and `unavailable` when its keys can't be had. */
export function createTokenReader(settings: JwtSettings): (token: string) => Promise<TokenUser> {
  const keys = createRemoteJWKSet(new URL(settings.jwksUrl), {
    timeoutDuration: FETCH_MS,
    cooldownDuration: COOLDOWN_MS,
  });
  const options = {
    ...{ issuer: settings.issuer, algorithms: ALGORITHMS, requiredClaims: ["sub", "exp"], clockTolerance: SKEW_S },
    ...(settings.audience !== null && { audience: settings.audience }),
  };
  return async (token) => {
    const { payload } = await jwtVerify(token, keys, options).catch((error: unknown) => {
      throw refusalOf(error);
    });
    return userOf(payload, settings);
  };
}

function refusalOf(error: unknown): Error {
  const isTheirs = error instanceof errors.JOSEError && !UNREACHED.has(error.code);
  if (isTheirs) return unauthorized("Not authenticated: the token is not valid");
  return new EngineError("unavailable", "The keys that tokens are checked with can't be had now; try again", {
    cause: error,
  });
}

/** The issuer didn't answer, or with something that is no set of keys. */
const UNREACHED: ReadonlySet<string> = new Set(["ERR_JOSE_GENERIC", "ERR_JWKS_TIMEOUT", "ERR_JWKS_INVALID"]);

function userOf(payload: JWTPayload, { tenantClaim, permissionsClaim }: JwtSettings): TokenUser {
  const { sub = "", exp = 0, name, email } = payload;
  if (sub === "" || sub.length > MAX_IDENTITY) throw unauthorized("Not authenticated: the token names nobody");
  const tenantId =
    tenantClaim === null ? DEFAULT_TENANT : tenantNamed(payload[tenantClaim], `the token's ${tenantClaim}`);
  const permissions = permissionsClaim === null ? null : listIn(payload[permissionsClaim]);
  const shown = [name, email, sub].find((text) => typeof text === "string") as string;
  const user = {
    ...payload,
    identity: sub,
    display_name: shown,
    permissions: permissions ?? [],
    is_authenticated: true,
  };
  const isOver = () => Promise.resolve(exp + SKEW_S <= Date.now() / 1_000);
  return { tenantId, user, permissions, isOver };
}

/** A list, or words as `scope` has them. */
function listIn(claim: unknown): string[] {
  if (typeof claim === "string") return claim.split(" ").filter((word) => word !== "");
  return Array.isArray(claim) ? claim.filter((item) => typeof item === "string") : [];
}
