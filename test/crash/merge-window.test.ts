// K11 with a process that dies: messages of a burst, each with its key, come to two API processes of which one is killed half way.
// Who got no answer asks the other: each message is in the conversation once.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, withCrashSite } from "./setup.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));
const MESSAGES = Array.from({ length: 12 }, (_, i) => `m${i}`);

function startApi({ db, deps }: CrashSite): TestProcess {
  const env = { DATABASE_URL: db.url, PERDURE_BODIES: deps.bodies.uri, PERDURE_LOG_LEVEL: "info" };
  return startProcess(["api", "--port", "0", "--config", CONFIG], { env });
}

const urlOf = async (api: TestProcess) => (await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/))[1] ?? "";

test("messages of a burst are in the conversation once each, although a process that merges them dies", async () => {
  await withCrashSite(async (site) => {
    const { thread_id } = await site.client.threads.create();
    const apis = [startApi(site), startApi(site)] as const;
    try {
      const [first = "", second = ""] = await Promise.all(apis.map(urlOf));
      const say = (url: string, id: string) =>
        fetch(`${url}/threads/${thread_id}/runs`, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": id },
          body: JSON.stringify({ assistant_id: "chat", input: { messages: [{ role: "user", content: id, id }] } }),
        }).then(
          async (response) => ((await response.json()) as { run_id?: string }).run_id,
          () => undefined,
        );
      const before = await say(first, "before");
      const asked = await site.db.db.tx(async (sql) => {
        await sql.query("select 1 from threads where thread_id = $1 for update", [thread_id]);
        // A promise in an array, so that the transaction doesn't wait for it.
        const all = MESSAGES.map((id, i) => say(i % 2 === 0 ? first : second, id));
        await until("both to wait for the thread", async () => {
          const { rows } = await site.db.db.query<{ n: number }>(
            "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
          );
          return (rows[0]?.n ?? 0) >= 4;
        });
        await apis[0].kill();
        return all;
      });
      const answers = await Promise.all(asked);
      expect(answers.filter((answer) => answer === undefined)).not.toHaveLength(0);
      const again = await Promise.all(MESSAGES.map((id) => say(second, id)));
      expect(again).not.toContain(undefined);
      for (const [i, answer] of answers.entries()) if (answer !== undefined) expect(again[i]).toBe(answer);
      site.worker();
      await until("all to be answered", async () => (await site.client.threads.get(thread_id)).status === "idle");
      const { values } = await site.client.threads.getState<{ messages: { type: string; content: string }[] }>(
        thread_id,
      );
      const said = values.messages.filter(({ type }) => type === "human").map(({ content }) => content);
      expect([...said].sort()).toEqual([...MESSAGES, "before"].sort());
      const runs = await site.client.runs.list(thread_id);
      expect(new Set([before, ...again])).toEqual(new Set(runs.map(({ run_id }) => run_id)));
      expect(runs.length).toBeLessThan(MESSAGES.length);
    } finally {
      await Promise.all(apis.map((api) => api.kill()));
    }
  });
}, 60_000);
