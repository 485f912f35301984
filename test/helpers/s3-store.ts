// Stores on the test run's S3 server, and how a test that needs one says that there is none.
import { randomUUID } from "node:crypto";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { describe, inject, it } from "vitest";
import { openBodyStore } from "../../src/bodies/open.js";
import type { S3Options } from "../../src/bodies/s3.js";
import type { BodyStore } from "../../src/core/deps.js";
import { NO_S3, type S3Server, s3Required } from "./s3.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The S3 server of this test run, from the global set-up. */
    s3: S3Server | null;
  }
}

/** Tests that need the real S3 server: skipped by name when there is none, failed where one is required. */
export function describeS3(name: string, tests: (server: S3Server) => void): void {
  const server = inject("s3");
  if (server) describe(name, () => tests(server));
  else if (s3Required()) it(`${name}: ${NO_S3}`, () => Promise.reject(new Error(NO_S3)));
  else describe.skip(`${name} (skipped: ${NO_S3})`, () => it("needs S3", () => {}));
}

function s3Client(server: S3Server): S3Client {
  return new S3Client({ ...s3Options(server), requestChecksumCalculation: "WHEN_REQUIRED" });
}

export function s3Options(server: S3Server): S3Options {
  const { endpoint, region, accessKeyId, secretAccessKey } = server;
  return { endpoint, region, credentials: { accessKeyId, secretAccessKey }, forcePathStyle: true };
}

/** `s3://bucket/prefix` that nobody else uses. */
export async function newS3Uri(server: S3Server): Promise<string> {
  const bucket = server.bucket ?? "perdure-tests";
  if (!server.bucket) {
    const client = s3Client(server);
    await client.send(new CreateBucketCommand({ Bucket: bucket })).finally(() => client.destroy());
  }
  return `s3://${bucket}/${randomUUID()}`;
}

/** A store under a prefix of its own. */
export async function newS3Store(server: S3Server, options: S3Options = {}): Promise<BodyStore> {
  return openBodyStore(await newS3Uri(server), { s3: { ...s3Options(server), ...options } });
}
