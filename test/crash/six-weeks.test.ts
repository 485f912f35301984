// Six weeks between a promise and its keeping, with all that happens in six weeks: the person writes from elsewhere, a deploy, a crash, and
// the database is restarted. It is kept once, where it was asked for.
import { readFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { migrateDatabase } from "../../src/cli/migrate.js";
import type { Db } from "../../src/core/deps.js";
import { superviseEmbeddedPostgres } from "../../src/db/embedded/server.js";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { installClock, moveClock, withMovableClock } from "../../src/testing/clock.js";
import { startSlack } from "../../src/testing/channels/slack.js";
import type { StandIn } from "../../src/testing/channels/stand-in.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";
import { quietPort } from "../helpers/ports.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const GRAPHS = fileURLToPath(new URL("graphs/promiser.ts", import.meta.url));
const WEEK_MS = 7 * 86_400_000;
const log = createLog("silent");

/** A Postgres whose clock can be moved and that is there again when it was killed, and a server on it. */
async function openSite() {
  const home = await mkdtemp(path.join(os.tmpdir(), "perdure-six-weeks-"));
  const postgres = await superviseEmbeddedPostgres({ dataDir: path.join(home, "data"), log });
  await migrateDatabase(postgres.url, log);
  const databaseUrl = withMovableClock(postgres.url);
  const db = openDb({ url: databaseUrl, max: 2, log, applicationName: "test" });
  await installClock(db);
  const checks = path.join(home, "checks");
  await writeFile(checks, "");
  const port = await quietPort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...{ DATABASE_URL: databaseUrl, PERDURE_BODIES: `file://${home}/bodies`, CHECKS: checks },
    ...{ PERDURE_LEASE_MS: "2000", PERDURE_POLL_MS: "200" },
  };
  let server: TestProcess | undefined;
  return {
    ...{ db, url },
    checks: async () => (await readFile(checks, "utf8")).split("\n").length - 1,
    /** With the graph as it is exported under this name. */
    async start(name: string): Promise<TestProcess> {
      const config = path.join(home, `${name}.json`);
      await writeFile(config, JSON.stringify({ graphs: { agent: `${GRAPHS}:${name}` } }));
      server = startProcess(["start", "--config", config, "--port", String(port)], { env });
      await until("the API", async () => (await fetch(`${url}/ok`).catch(() => undefined))?.ok === true, {
        timeoutMs: 60_000,
      });
      return server;
    },
    async killPostgres() {
      const before = await startedAt(db);
      process.kill(postgres.pid, "SIGKILL");
      const isBack = async () => ![before, "away"].includes(await startedAt(db));
      await until("the database to be there again", isBack, { timeoutMs: 60_000 });
    },
    async close() {
      await server?.stop();
      await db.close();
      await postgres.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Which start of the database this is. */
const startedAt = (db: Db): Promise<string> =>
  db.query<{ at: string }>("select pg_postmaster_start_time()::text as at").then(
    ({ rows }) => rows[0]?.at ?? "",
    () => "away",
  );

async function request<T>(method: string, url: string, body?: object): Promise<T> {
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(url, { method, headers: { "content-type": "application/json" }, ...init });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function connect(url: string, standIn: StandIn): Promise<string> {
  const made = { ...standIn.account("agent"), name: standIn.kind };
  type Account = { channel_account_id: string; webhook_url: string };
  const account = await request<Account>("POST", `${url}/v1/channel-accounts`, made);
  await standIn.connect({ webhookUrl: account.webhook_url });
  return account.channel_account_id;
}

test("what was promised for in six weeks comes once, to the chat where it was asked, whatever happened since", async () => {
  const [telegram, whatsapp, slack] = await Promise.all([startTelegram(), startWhatsApp(), startSlack()]);
  const site = await openSite();
  const { db, url } = site;
  try {
    const first = await site.start("promiser");
    await connect(url, telegram);
    const others = { whatsapp: await connect(url, whatsapp), slack: await connect(url, slack) };
    await telegram.says("later", { chatId: 1, threadId: 7 });
    await until("the promise", () => telegram.messages(1).length === 1, { timeoutMs: 30_000 });
    // The same person, on the same thread, from elsewhere.
    const [{ thread_id }] = await request<[{ thread_id: string }]>("GET", `${url}/v1/conversations`);
    const addresses = { whatsapp: { phone: "15550001" }, slack: { channel: "C1" } };
    for (const kind of ["whatsapp", "slack"] as const) {
      const body = { channel_account_id: others[kind], address: addresses[kind], thread_id };
      await request("PUT", `${url}/v1/conversations`, body);
    }
    await whatsapp.says("hello", "15550001");
    await slack.says("hello", { channel: "C1" });
    await until("their answers", () => whatsapp.messages().length === 1 && slack.messages("C1").length === 1, {
      timeoutMs: 30_000,
    });

    await moveClock(db, 3 * WEEK_MS);
    await first.stop();
    const second = await site.start("promiserLater");
    await site.killPostgres();
    await moveClock(db, 3 * WEEK_MS - 60_000);
    await sleep(1_500);
    expect(telegram.messages()).toHaveLength(1);

    await moveClock(db, 60_000);
    await until("the check", async () => (await site.checks()) === 1, { timeoutMs: 60_000 });
    await second.kill();
    await site.start("promiserLater");
    await until("the result", () => telegram.messages().length === 2, { timeoutMs: 60_000 });
    await sleep(1_500);
    expect(telegram.messages().map(({ chatId, threadId, text }) => [chatId, threadId, text])).toEqual([
      [1, 7, "I'll get back to you."],
      [1, 7, "It was renewed, says the second version."],
    ]);
    expect([whatsapp.messages().length, slack.messages().length]).toEqual([1, 1]);
    expect(await request("GET", `${url}/v1/followups?thread_id=${thread_id}`)).toMatchObject([{ status: "produced" }]);
    const { rows } = await db.query("select count(*)::int as n from runs where followup_id is not null");
    expect(rows).toEqual([{ n: 2 }]);
  } finally {
    await site.close();
    await Promise.all([telegram.close(), whatsapp.close(), slack.close()]);
  }
});
