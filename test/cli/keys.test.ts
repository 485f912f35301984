// Who is let in by processes as they are started: nobody unless that was said, then who has a key of `perdure keys`, or is known to auth.path.
import { describe, expect, it } from "vitest";
import { createTestDatabase } from "../helpers/database.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject } from "./project.js";

const LONG = { timeout: 120_000 };
const AUTH = `
import { Auth, HTTPException } from "@langchain/langgraph-sdk/auth";
export const auth = new Auth().authenticate((request) => {
  const name = request.headers.get("x-name");
  if (!name) throw new HTTPException(401, { message: "no name" });
  return { identity: name, permissions: [] };
});
`;
const WITH_AUTH = {
  "langgraph.json": `{"graphs":{"agent":"./graph.ts:graph"},"auth":{"path":"./auth.ts:auth"}}`,
  "auth.ts": AUTH,
};

async function withProject(
  files: Readonly<Record<string, string>>,
  work: (at: Readonly<{ cwd: string; env: Record<string, string> }>) => Promise<void>,
): Promise<void> {
  const database = await createTestDatabase();
  const cwd = await createProject(files);
  try {
    await work({ cwd, env: { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies`, PERDURE_AUTH: "" } });
  } finally {
    await database.close();
  }
}

async function serving(command: string, at: Parameters<typeof startProcess>[1]) {
  const process = startProcess([command, "--port", "0"], at);
  const [, url = ""] = await process.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
  await process.waitFor(`perdure ${command} is ready`);
  const post = async (headers: Record<string, string> = {}) =>
    (await fetch(`${url}/threads`, { method: "POST", headers, body: "{}" })).status;
  return { process, url, post };
}

describe("an API without a word about who may use it", () => {
  it("lets nobody in and says what to do; a key that is made meanwhile lets in until it is revoked", LONG, async () => {
    await withProject({}, async (at) => {
      const { process, url, post } = await serving("start", at);
      try {
        expect(await post()).toBe(401);
        expect((await fetch(`${url}/ok`)).status).toBe(200);
        expect(process.output()).toContain("nobody is let in yet: make a key with `perdure keys create <name>`");

        const made = await runProcess(
          ["keys", "create", "ci", "--scopes", "threads,assistants:read", "--expires", "90d"],
          at,
        );
        const key = made.stdout.trim();
        expect([made.code, key]).toEqual([0, expect.stringMatching(/^pdk_default\.\S+$/)]);
        expect(made.output).toContain("It isn't shown again");
        expect(await post({ "x-api-key": key })).toBe(200);

        const listed = await runProcess(["keys", "ls", "--json"], at);
        const [row] = JSON.parse(listed.stdout) as { api_key_id: string }[];
        expect(row).toMatchObject({ name: "ci", tenant_id: "default", scopes: ["threads", "assistants:read"] });
        expect(listed.output).not.toContain(key.split(".")[2]);
        expect((await runProcess(["keys", "ls"], at)).stdout).toMatch(/ci +threads,assistants:read +in use/);

        const id = row?.api_key_id ?? "";
        const rotated = await runProcess(["keys", "rotate", id, "--json"], at);
        const next = JSON.parse(rotated.stdout) as { key: string; rotates: string };
        expect(next.rotates).toBe(id);
        expect([await post({ "x-api-key": next.key }), await post({ "x-api-key": key })]).toEqual([200, 200]);
        expect((await runProcess(["keys", "revoke", id], at)).stdout).toContain("within 5 seconds");
        await until("the key is over", async () => (await post({ "x-api-key": key })) === 401, { timeoutMs: 10_000 });
        expect(await post({ "x-api-key": next.key })).toBe(200);
      } finally {
        await process.stop();
      }
    });
  });

  it("is open where that was said", LONG, async () => {
    await withProject({}, async ({ cwd, env }) => {
      const { process, post } = await serving("api", { cwd, env: { ...env, PERDURE_AUTH: "off" } });
      expect(await post()).toBe(200);
      await process.stop();
    });
  });
});

describe("auth.path", () => {
  it("is asked by every process that serves, and is not Studio's to go round", LONG, async () => {
    await withProject(WITH_AUTH, async (at) => {
      const { process, post } = await serving("api", at);
      const studio = { "x-auth-scheme": "langsmith" };
      expect([await post(), await post({ "x-name": "ana" }), await post(studio)]).toEqual([401, 200, 401]);
      expect(process.output()).not.toContain("nobody is let in");
      await process.stop();
      const dev = await serving("api", { ...at, env: { ...at.env, PERDURE_AUTH: "dev" } });
      expect([await dev.post(), await dev.post(studio)]).toEqual([401, 200]);
      await dev.process.stop();
    });
  });

  it.each([
    [WITH_AUTH, { PERDURE_AUTH: "off" }, 'would let everybody in in spite of "auth.path"'],
    [{ ...WITH_AUTH, "auth.ts": "export const auth = {};" }, {}, "is no Auth: write it as new Auth()"],
    [{ ...WITH_AUTH, "auth.ts": "export const other = 1;" }, {}, "does not exist; the file exports other"],
    [{ ...WITH_AUTH, "auth.ts": "throw new Error('at import');" }, {}, "threw on import"],
    [{}, { PERDURE_JWT_JWKS_URL: "https://issuer.example/jwks" }, "needs PERDURE_JWT_ISSUER and PERDURE_JWT_AUDIENCE"],
    [{}, { PERDURE_JWT_JWKS_URL: "issuer" }, "PERDURE_JWT_JWKS_URL must be a URL"],
    [{}, { PERDURE_AUTH: "of" }, "PERDURE_AUTH must be one of on, off, dev"],
  ])("that can't be meant keeps the API from starting", LONG, async (files, more, message) => {
    const cwd = await createProject(files);
    const env = {
      DATABASE_URL: "postgres://nobody@127.0.0.1:1/none",
      PERDURE_BODIES: `file://${cwd}/bodies`,
      PERDURE_AUTH: "",
    };
    const { code, output } = await runProcess(["api"], { cwd, env: { ...env, ...(more as Record<string, string>) } });
    expect(output).toContain(message);
    expect(code).toBe(2);
  });
});

describe("perdure keys", () => {
  it.each([
    [["keys", "create", "x", "--scopes", "thread"], 'did you mean "threads"'],
    [["keys", "create", "x", "--tenant", "Acme"], "is no tenant"],
    [["keys", "create", "x", "--expires", "soon"], "--expires must be a length of time"],
    [["keys", "revoke", "not-an-id"], "is not the id of a key"],
  ])("%j is refused with the reason", LONG, async (args, message) => {
    await withProject({}, async (at) => {
      const { code, output } = await runProcess(args, at);
      expect([code, output]).toEqual([2, expect.stringContaining(message)]);
    });
  });
});
