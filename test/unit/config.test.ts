import { describe, expect, it } from "vitest";
import { describeSettings, readConfig } from "../../src/config.js";
import { nearest } from "../../src/core/nearest.js";

describe("the configuration from the environment", () => {
  it("has a default for every setting and is frozen", () => {
    const config = readConfig({});
    expect(config).toEqual({
      databaseUrl: null,
      listenUrl: null,
      bodies: null,
      s3ForcePathStyle: false,
      s3Checksums: false,
      secretKey: null,
      oldSecretKeys: [],
      host: "127.0.0.1",
      port: 2024,
      leaseMs: 15_000,
      pollMs: 2_000,
      moveAfterMs: 30_000,
      maxBlockMs: 60_000,
      concurrency: null,
      dbPool: 10,
      previews: true,
      auth: null,
      jwtJwksUrl: null,
      jwtIssuer: null,
      jwtAudience: null,
      jwtTenantClaim: null,
      jwtPermissionsClaim: null,
      identityHeaders: false,
      testRoutes: false,
      telegramApiRoot: null,
      followupsPerThread: 10,
      followupsPerTenant: 1_000,
      followupShortestMs: 5_000,
      followupHorizonDays: 400,
      followupDepth: 3,
      whatsappApiRoot: null,
      slackApiRoot: null,
      shortestRecurrenceMs: 900_000,
      outreachPerDay: 3,
      outreachRunning: 5,
      webhookSecrets: [],
      webhookPrivate: false,
      adoptFrom: null,
      adoptGraph: null,
      langgraphConfig: null,
      apiUrl: null,
      logLevel: "info",
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it("parses what is given, and takes an empty value for none", () => {
    const config = readConfig({
      DATABASE_URL: "postgres://u:p@db:5432/app",
      PERDURE_BODIES: "s3://bucket/prefix",
      PERDURE_S3_FORCE_PATH_STYLE: "1",
      PERDURE_LEASE_MS: "2000",
      PERDURE_PREVIEWS: "off",
      PORT: "",
    });
    expect(config).toMatchObject({
      databaseUrl: "postgres://u:p@db:5432/app",
      bodies: "s3://bucket/prefix",
      s3ForcePathStyle: true,
      leaseMs: 2000,
      previews: false,
      port: 2024,
    });
  });

  it("refuses an unknown PERDURE_ name with the nearest right one, and leaves other names alone", () => {
    expect(() => readConfig({ PERDURE_LEASE_MSEC: "1", PATH: "/bin" })).toThrow(
      "PERDURE_LEASE_MSEC is not a setting; did you mean PERDURE_LEASE_MS?",
    );
  });

  it("names every bad key at once and what is allowed, never the value", () => {
    const read = () =>
      readConfig({
        PORT: "eighty",
        PERDURE_PREVIEWS: "yes",
        DATABASE_URL: "mysql://secret@x",
      });
    expect(read).toThrow(
      [
        "DATABASE_URL must be a URL like postgres://user@host:5432/name",
        "PORT must be a whole number from 0 to 65535",
        "PERDURE_PREVIEWS must be one of on, off",
      ].join("\n"),
    );
    expect(read).not.toThrow(/secret@/);
  });

  it("has a sentence for every setting", () => {
    for (const { about } of describeSettings()) expect(about).toMatch(/^[A-Z].*\.$/);
  });
});

describe("the nearest right name", () => {
  it("is found despite a slip, and is none when nothing is near", () => {
    expect(nearest("concurency", ["concurrency", "budgets"])).toBe("concurrency");
    expect(nearest("ABC", ["DATABASE_URL"])).toBeNull();
  });
});
