// A2A: a task outlives the worker that was at it, and the API process that it was sent to.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { agent0, agent1 } from "../helpers/a2a.js";
import { startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));

test.each([
  ["0.3", agent0],
  ["1.0", agent1],
])(
  "%s: worker and API are killed under a task, and the message sent again elsewhere finds it",
  async (_version, connect) => {
    await withCrashSite(async (site) => {
      const env = { DATABASE_URL: site.db.url, PERDURE_BODIES: site.deps.bodies.uri, PERDURE_LOG_LEVEL: "info" };
      const apis = [0, 1].map(() => startProcess(["api", "--port", "0", "--config", CONFIG], { env }));
      try {
        const journal = site.journal();
        const configurable = { journal: journal.path, step_ms: 20, hold: ["s3"] };
        const { assistant_id } = await site.client.assistants.create({ graphId: "steps", config: { configurable } });
        const agents = [];
        for (const api of apis) {
          const [, url = ""] = await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/);
          agents.push(await connect({ url, fetch: globalThis.fetch, assistant: assistant_id }));
        }
        const worker = site.worker();
        const message = { data: { log: [] }, messageId: "the message" };
        const lost = agents[0]?.send(message).then(
          () => "answered",
          () => "lost",
        );
        await until("the third step", () => journal.count("enter s3") === 1);
        await Promise.all([worker.kill(), apis[0]?.kill()]);
        expect(await lost).toBe("lost");
        const again = agents[1]?.send(message);
        await site.expire(worker);
        site.worker();
        const task = await again;
        expect(task).toMatchObject({ state: "completed" });
        expect((JSON.parse(task?.said ?? "") as { log: string[] }).log).toHaveLength(20);
        expect(journal.count("enter s1")).toBe(1);
        expect(await site.client.runs.list(task?.contextId ?? "")).toHaveLength(1);
      } finally {
        await Promise.all(apis.map((api) => api.kill()));
      }
    });
  },
  90_000,
);
