// What an error of the S3 client means. The client's own error objects never leave this folder: they can hold signatures.
import { EngineError } from "../core/errors.js";

type Facts = Readonly<{ status: number | undefined; code: string }>;

/** The HTTP status, if there was an answer, and S3's or the system's code. */
export function factsOf(error: unknown): Facts {
  const raw = (error ?? {}) as { name?: unknown; code?: unknown; $metadata?: { httpStatusCode?: number } };
  const status = raw.$metadata?.httpStatusCode;
  const code = [raw.code, raw.name].find((text) => typeof text === "string" && text !== "Error");
  return { status, code: typeof code === "string" ? code.slice(0, 80) : "unknown" };
}

/** Answers that ask for another try although their status doesn't say so. */
const RETRYABLE_CODES = new Set([
  "ConditionalRequestConflict",
  "OperationAborted",
  "RequestTimeout",
  "RequestTimeTooSkewed",
  "SlowDown",
  "Throttling",
  "ThrottlingException",
  "InternalError",
  "ServiceUnavailable",
  "ExpiredToken",
]);
/** What to change, for failures that stay the same however often one tries. */
const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: "there is no such bucket",
  InvalidBucketName: "this can't be a bucket's name",
  AccessDenied:
    "access is denied: it takes s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket (without the last, missing objects answer 403)",
  InvalidAccessKeyId: "the access key is not known there",
  SignatureDoesNotMatch: "the secret key is wrong",
  CredentialsProviderError:
    "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role",
  PermanentRedirect: "the bucket is in another region: set AWS_REGION",
  AuthorizationHeaderMalformed: "the bucket is in another region: set AWS_REGION",
  NotImplemented:
    "the server lacks this (conditional PUT is needed; with PERDURE_S3_CHECKSUMS=true, checksum headers too)",
};
/** Failures of this process itself; trying again changes nothing. */
const LOCAL_CODES = new Set(["TypeError", "RangeError", "SyntaxError"]);

export function isRetryable(error: unknown): boolean {
  const { status, code } = factsOf(error);
  if (RETRYABLE_CODES.has(code)) return true;
  if (Object.hasOwn(HINTS, code) || LOCAL_CODES.has(code)) return false;
  if (status === undefined || status < 300) return true;
  return status === 408 || status === 429 || (status >= 500 && status !== 501);
}

/** True when the request may have been carried out although no answer says so. */
export function isAmbiguous(error: unknown): boolean {
  const { status } = factsOf(error);
  return status === undefined || status < 300 || status >= 500;
}

/** An EngineError that says what was tried, where, and what to change, without secrets. */
export function toEngineError(error: unknown, uri: string, what: string): EngineError {
  const { status, code } = factsOf(error);
  const details = { status: status ?? null, s3_code: code };
  const answer = status === undefined || status < 300 ? code : `${status} ${code}`;
  if (isRetryable(error)) return new EngineError("unavailable", `${uri}: can't ${what} now: ${answer}`, { details });
  const hint = HINTS[code];
  return new EngineError("config_invalid", `${uri}: can't ${what}: ${hint ? `${hint} (${answer})` : answer}`, {
    details,
  });
}

export function noRegion(uri: string): EngineError {
  return new EngineError(
    "config_invalid",
    `${uri}: no region is set: set AWS_REGION (us-east-1 does for most servers of one's own)`,
  );
}
