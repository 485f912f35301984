// MCP: a call outlives the worker that was at it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { serveApi } from "../../src/api/server.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

test("a worker that is killed while a tool is called costs the caller nothing but time", async () => {
  await withCrashSite(async (site) => {
    const server = await serveApi(site.app, { port: 0 });
    const client = new Client({ name: "test", version: "1" });
    try {
      const journal = site.journal();
      const configurable = { journal: journal.path, step_ms: 20, hold: ["s3"] };
      const { assistant_id } = await site.client.assistants.create({ graphId: "steps", config: { configurable } });
      await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
      const worker = site.worker();
      const answer = client.callTool({ name: assistant_id, arguments: { log: [] } });
      await until("the third step", () => journal.count("enter s3") === 1);
      await worker.kill();
      await site.expire(worker);
      site.worker();
      const { structuredContent, _meta } = (await answer) as unknown as {
        structuredContent: { log: string[] };
        _meta: { thread_id: string };
      };
      expect(structuredContent.log).toHaveLength(20);
      expect(journal.count("enter s1")).toBe(1);
      expect(await site.client.runs.list(_meta.thread_id)).toHaveLength(1);
    } finally {
      await client.close();
      await server.close();
    }
  });
}, 90_000);
