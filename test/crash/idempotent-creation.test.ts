// C3: a client that lost the answer asks again, elsewhere: one key, one run, whatever process dies.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { withCrashSite, type CrashSite } from "./setup.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));

function startApi(site: CrashSite): TestProcess {
  const env = { DATABASE_URL: site.db.url, PERDURE_BODIES: site.deps.bodies.uri, PERDURE_LOG_LEVEL: "info" };
  return startProcess(["api", "--port", "0", "--config", CONFIG], { env });
}

async function urlOf(api: TestProcess): Promise<string> {
  return (await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/))[1] ?? "";
}

/** Transactions of the API that wait for a lock. */
async function waiting({ db }: CrashSite): Promise<number> {
  const { rows } = await db.db.query<{ n: number }>(
    `select count(distinct pid) as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows[0]?.n ?? 0;
}

test("twenty requests with one key over two API processes, one killed half way, make one run", async () => {
  await withCrashSite(async (site) => {
    const { thread_id } = await site.client.threads.create();
    const apis = [startApi(site), startApi(site)] as const;
    try {
      const [first, second] = await Promise.all(apis.map(urlOf));
      const ask = (url: string | undefined) =>
        fetch(`${url}/threads/${thread_id}/runs`, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": "a message" },
          body: JSON.stringify({ assistant_id: "steps", input: { log: [] } }),
        }).then(
          (response) => response.headers.get("content-location"),
          () => undefined,
        );
      const asked: ReturnType<typeof ask>[] = [];
      // The thread is held, so that the first has taken its key and made nothing yet when its process dies.
      await site.db.db.tx(async (sql) => {
        await sql.query("select 1 from threads where thread_id = $1 for update", [thread_id]);
        asked.push(ask(first));
        await until("the first to wait for the thread", async () => (await waiting(site)) === 1);
        asked.push(...Array.from({ length: 19 }, (_, i) => ask(i % 2 === 0 ? second : first)));
        await until("others to wait for the first", async () => (await waiting(site)) > 4);
        await apis[0].kill();
      });
      const answers = await Promise.all(asked);
      expect(answers.filter((answer) => answer === undefined)).toHaveLength(10);
      const again = await Promise.all(answers.map(async (answer) => answer ?? ask(second)));
      const runs = await site.client.runs.list(thread_id);
      expect(runs).toHaveLength(1);
      expect(new Set(again)).toEqual(new Set([`/threads/${thread_id}/runs/${runs[0]?.run_id}`]));
    } finally {
      await Promise.all(apis.map((api) => api.kill()));
    }
  });
}, 60_000);
