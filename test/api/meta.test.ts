// What holds for the whole surface: readiness, info, CORS, unknown and unserved routes.
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { composeEngine, openParts } from "../../src/compose.js";
import { createLog } from "../../src/observe/log.js";
import type { TestEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";
import { approvalDefaults } from "../../src/engine/approval-policy.js";
import { sharedEngine } from "./shared.js";
import { policiesFrom } from "../../src/core/policy.js";

const shared = sharedEngine({ graphs, workers: 0 });
const served = (work: (engine: TestEngine) => Promise<void>) => work(shared());

test("ok and info answer as clients expect", () =>
  served(async ({ app }) => {
    for (const path of ["/ok", "/ok?check_db=1", "/ok?check_db=0"]) {
      const response = await app.request(path);
      expect([response.status, await response.json()]).toEqual([200, { ok: true }]);
    }
    const info = (await (await app.request("/info")).json()) as Record<string, unknown>;
    expect(info).toMatchObject({ context: "js", flags: { assistants: true, crons: true, stream_namespaces: true } });
    expect(info.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(info.langgraph_js_version).toMatch(/^\d+\.\d+\.\d+/);
  }));

test("without a database it is up but not ready, accepts nothing, and says why", () =>
  served(async ({ engine }) => {
    const away = openParts({
      databaseUrl: "postgres://nobody@127.0.0.1:1/none",
      bodies: "memory:",
      log: createLog("silent"),
      applicationName: "test",
    });
    try {
      const settings = {
        databaseUrl: "",
        leaseMs: 1,
        pollMs: 1,
        moveAfterMs: 1,
        maxBlockMs: 1,
        previews: true,
        logLevel: "silent",
        retention: null,
        approvals: approvalDefaults({}),
        auth: "open" as const,
        identityHeaders: false,
        policyOf: policiesFrom({}),
      };
      const app = createApp(composeEngine(away, engine.graphs, settings));
      expect((await app.request("/ok")).status).toBe(503);
      expect((await app.request("/ok?check_db=0")).status).toBe(200);
      expect((await app.request("/info")).status).toBe(200);
      const refused = await app.request("/threads", { method: "POST", body: "{}" });
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toBe("1");
      const run = await app.request("/runs/wait", { method: "POST", body: '{"assistant_id":"steps","input":{}}' });
      expect(run.status).toBe(503);
    } finally {
      await away.close();
    }
  }));

test("browsers may call it from anywhere and read what clients need", () =>
  served(async ({ app }) => {
    const preflight = await app.request("/threads", {
      method: "OPTIONS",
      headers: {
        origin: "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-api-key,x-anything,last-event-id,prefer,content-type",
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
    expect(preflight.headers.get("access-control-allow-headers")).toContain("x-anything");
    expect(preflight.headers.get("access-control-allow-methods")).toContain("PATCH");
    const failed = await app.request("/threads/x", { headers: { origin: "https://chat.example" } });
    expect(failed.headers.get("access-control-allow-origin")).toBe("*");
    const exposed = failed.headers.get("access-control-expose-headers");
    for (const name of ["content-location", "location", "x-pagination-total", "x-pagination-next"]) {
      expect(exposed).toContain(name);
    }
  }));

test("an answer carries the request's id, or one made for it", () =>
  served(async ({ app }) => {
    const given = await app.request("/info", { headers: { "x-request-id": "abc-1" } });
    expect(given.headers.get("x-request-id")).toBe("abc-1");
    const made = await app.request("/info", { headers: { "x-request-id": "no good\t" } });
    expect(made.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  }));

test("what is nowhere is 404 by name", () =>
  served(async ({ app }) => {
    const response = await app.request("/nowhere");
    expect([response.status, await response.text()]).toEqual([404, "Nothing is served at GET /nowhere"]);
  }));

test("a body beyond the limit is refused before it is read", () =>
  served(async ({ app }) => {
    const response = await app.request("/threads", {
      method: "POST",
      body: "{}",
      headers: { "content-length": String(1024 ** 3) },
    });
    expect(response.status).toBe(413);
  }));
