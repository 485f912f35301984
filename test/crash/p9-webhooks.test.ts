// K8 and K11 with two API processes: what a channel brings is taken once however often and wherever it comes in, in the order in which the
// person wrote it, and what can't be stored is not taken.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startTelegram, type TelegramStandIn } from "../../src/testing/channels/telegram.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { startProxy } from "../helpers/proxy.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, withCrashSite } from "./setup.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));
const SECRET = "stand-in-secret";
const COPIES = 20;

type Site = CrashSite &
  Readonly<{
    telegram: TelegramStandIn;
    /** Brings an update to one of the processes, as Telegram does; the status, and how long it took. */
    push(api: number, update: object, secret?: string): Promise<Readonly<{ status: number; ms: number }>>;
    /** Whether the first process reaches its database. */
    connected(is: boolean): void;
    runs(): Promise<readonly Readonly<{ run_id: string; status: string; texts: readonly string[] }>[]>;
    said(): Promise<readonly string[]>;
  }>;

/** `chat` merges messages that come within a window, `plain` doesn't. */
async function withApis(graph: "plain" | "chat", work: (site: Site) => Promise<void>): Promise<void> {
  const telegram = await startTelegram();
  try {
    await withCrashSite(async (site) => {
      const proxy = await startProxy(site.db.url);
      const through = new URL(site.db.url);
      through.host = `127.0.0.1:${proxy.port}`;
      const apis = [startApi(site, through.href), startApi(site, site.db.url)];
      try {
        const urls = await Promise.all(apis.map(urlOf));
        const account = {
          ...{ kind: "telegram", name: "bot", credentials: { token: telegram.token } },
          settings: { api_root: telegram.url, assistant_id: graph, webhook_secret: SECRET },
        };
        const headers = { "content-type": "application/json" };
        const made = await fetch(`${urls[0]}/v1/channel-accounts`, {
          ...{ method: "POST", headers, body: JSON.stringify(account) },
        });
        const { channel_account_id: id } = (await made.json()) as { channel_account_id: string };
        await work({
          ...site,
          telegram,
          async push(api, update, secret = SECRET) {
            const begun = performance.now();
            const { status } = await fetch(`${urls[api]}/v1/channels/${id}/webhook`, {
              ...{ method: "POST", body: JSON.stringify(update) },
              headers: { ...headers, "x-telegram-bot-api-secret-token": secret },
            });
            return { status, ms: performance.now() - begun };
          },
          connected(is) {
            proxy.faults.refusing = !is;
            if (!is) proxy.cut();
          },
          async runs() {
            const { rows } = await site.db.db.query<{ run_id: string; status: string; request: string }>(
              "select run_id, status, convert_from(request, 'UTF8') as request from runs where kind = 'run' order by seq",
            );
            return rows.map(({ request, ...run }) => ({ ...run, texts: textsOf(request) }));
          },
          async said() {
            const [{ thread_id: threadId } = { thread_id: "" }] = await site.client.threads.search();
            const response = await fetch(`${urls[1]}/threads/${threadId}/state`);
            const state = (await response.json()) as { values: { messages: Message[] } };
            return state.values.messages.filter(({ type }) => type === "human").map(({ content }) => content);
          },
        });
      } finally {
        for (const api of apis) await api.kill();
        await proxy.close();
      }
    });
  } finally {
    await telegram.close();
  }
}

type Message = Readonly<{ type: string; content: string }>;

const textsOf = (request: string) =>
  (JSON.parse(request) as { input: { messages: Message[] } }).input.messages.map(({ content }) => content);

function startApi({ deps }: CrashSite, databaseUrl: string): TestProcess {
  const env = { DATABASE_URL: databaseUrl, PERDURE_BODIES: deps.bodies.uri, PERDURE_LOG_LEVEL: "info" };
  return startProcess(["api", "--port", "0", "--config", CONFIG], { env });
}

const urlOf = async (api: TestProcess) => (await api.waitFor(/"url":"(http:[^"]+)"[^\n]*listening/))[1] ?? "";

function update(id: number, text: string, messageId = id) {
  const from = { id: 1, is_bot: false, first_name: "Ada" };
  return { update_id: id, message: { message_id: messageId, date: 0, from, chat: { id: 1, type: "private" }, text } };
}

test("a webhook that comes 20 times at once, and later again, is one run and one reply; without a store it is not taken", async () => {
  await withApis("plain", async ({ push, runs, telegram, worker, connected }) => {
    expect((await push(0, update(1, "forged"), "wrong")).status).toBe(401);
    expect(await runs()).toEqual([]);

    // Once before, so that what is measured isn't the processes' first connections.
    await Promise.all([push(0, update(1, "warm")), push(1, update(1, "warm"))]);
    const many = await Promise.all(Array.from({ length: COPIES }, (_, n) => push(n % 2, update(2, "once"))));
    expect(many.map(({ status }) => status)).toEqual(Array.from({ length: COPIES }, () => 200));
    expect(await runs()).toHaveLength(2);
    worker();
    await until("both have their reply", () => telegram.messages(1).length === 2);
    expect((await push(1, update(2, "once"))).status).toBe(200);

    connected(false);
    expect((await push(0, update(3, "while it is away"))).status).toBeGreaterThanOrEqual(500);
    expect(await runs()).toHaveLength(2);
    connected(true);
    await until(
      "Telegram's next try is taken",
      async () => (await push(0, update(3, "while it is away"))).status === 200,
    );
    await until("it has its reply", () => telegram.messages(1).length === 3);
    expect(await runs()).toHaveLength(3);
    expect(telegram.messages(1)).toHaveLength(3);
  });
});

test.each([
  ["plain", 5],
  ["chat", 1],
] as const)(
  "five messages that come in shuffled, to two processes, are asked of %s in the order of writing: %i runs",
  async (graph, count) => {
    await withApis(graph, async ({ push, runs, worker, said, telegram }) => {
      const texts = ["one", "two", "three", "four", "five"];
      const shuffled = [2, 4, 0, 3, 1];
      await Promise.all(
        shuffled.map(async (at, n) => {
          await new Promise((resolve) => setTimeout(resolve, n * 60));
          const { status } = await push(n % 2, update(10 + at, texts[at] ?? "", 100 + at));
          expect(status).toBe(200);
        }),
      );
      expect((await runs()).map((run) => run.texts)).toEqual(count === 1 ? [texts] : texts.map((text) => [text]));
      worker();
      await until("all are answered", async () => (await runs()).every(({ status }) => status === "success"));
      expect(await said()).toEqual(texts);
      await until("each has its reply", () => telegram.messages(1).length === count);
    });
  },
);
