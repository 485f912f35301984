// Who is let in, as the environment and the project say it together.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Env, readConfig } from "../../src/config.js";
import type { Project } from "../../src/engine/langgraph-json.js";
import { authSettings } from "../../src/open.js";

const JWT: Env = {
  PERDURE_JWT_JWKS_URL: "https://issuer.example/jwks",
  PERDURE_JWT_ISSUER: "https://issuer.example",
  PERDURE_JWT_AUDIENCE: "perdure",
};
let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), "perdure-auth-"));
  await writeFile(path.join(dir, "asks.mjs"), `export default { "~handlerCache": { authenticate: () => "ana" } };`);
  await writeFile(path.join(dir, "judges.mjs"), `export default { "~handlerCache": { callbacks: {} } };`);
});
afterAll(() => rm(dir, { recursive: true }));

const settings = (env: Env, auth: "asks" | "judges" | null = null, disableStudio = false) => {
  const file = path.join(dir, `${auth}.mjs`);
  const source = { id: "auth.path", file, exportName: "default", description: null };
  const project = { path: "langgraph.json", env: {}, auth: auth === null ? null : { source, disableStudio } };
  return authSettings(readConfig(env), project as unknown as Project);
};

describe("everybody", () => {
  it("is let in only where that is said, or in development without an auth.path", async () => {
    expect(await settings({ PERDURE_AUTH: "off" })).toBe("open");
    expect(await settings({ PERDURE_AUTH: "dev" })).toBe("open");
    for (const env of [{}, { PERDURE_AUTH: "on" }, JWT, { ...JWT, PERDURE_AUTH: "dev" }]) {
      expect(await settings(env)).toMatchObject({ module: null, studio: false });
    }
    for (const auth of ["asks", "judges"] as const) expect(await settings({}, auth)).toMatchObject({ studio: false });
  });

  it("is not let in by what contradicts itself", async () => {
    await expect(settings({ PERDURE_AUTH: "off" }, "asks")).rejects.toThrow(
      'in spite of "auth.path" of langgraph.json',
    );
    await expect(settings({ ...JWT, PERDURE_AUTH: "off" })).rejects.toThrow("in spite of PERDURE_JWT_JWKS_URL");
    await expect(settings(JWT, "asks")).rejects.toThrow("has no effect beside the authenticate");
  });
});

it("LangGraph Studio is let in in development only, and not where that is forbidden", async () => {
  expect(await settings({ PERDURE_AUTH: "dev" }, "asks")).toMatchObject({ studio: true });
  expect(await settings({ PERDURE_AUTH: "dev" }, "asks", true)).toMatchObject({ studio: false });
  expect(await settings({}, "asks", false)).toMatchObject({ studio: false });
});

it("tokens need an issuer, and for whom they are; handlers may judge them", async () => {
  const { PERDURE_JWT_ISSUER: _, ...noIssuer } = JWT;
  const { PERDURE_JWT_AUDIENCE: __, ...noAudience } = JWT;
  for (const env of [noIssuer, noAudience]) {
    await expect(settings(env)).rejects.toThrow("needs PERDURE_JWT_ISSUER and PERDURE_JWT_AUDIENCE");
  }
  expect(await settings({ ...JWT, PERDURE_JWT_AUDIENCE: "*" })).toMatchObject({ jwt: { audience: null } });
  expect(await settings(JWT, "judges")).toMatchObject({ jwt: { audience: "perdure", tenantClaim: null } });
});
