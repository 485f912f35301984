// P9 under fire: two deliverers, one of which, either, is killed every 200 ms while many messages are due on three channels. Each person has a
// message once where the channel lets us find out, at most once where it doesn't, and every message is accounted for.
import { expect, it } from "vitest";
import { fileURLToPath } from "node:url";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { noteHeard } from "../../src/delivery/accounts.js";
import { startStandIn } from "../../src/testing/channels/stand-in.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";
import { type Outbox, TIMEOUT_MS, withOutbox } from "../helpers/deliveries.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { reachedBy } from "../helpers/receipts.js";
import { size, SOAK_MS } from "../helpers/soak.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
/** On each channel. */
const DUE = size(60, 500);
const EVERY_MS = 200;
/** A channel takes so long to answer: most that are killed have messages on their way. */
const ANSWER_MS = 100;
/** So long a try's silence has to last before it counts; receipts are told at once, but this machine may be busy. */
const WINDOW_MS = 8_000;
/** Then those that are left may finish: what is looked for after a while has to be found by somebody. */
const MOST_KILLS = size(8, 100);
/** That many wait to take the place of one that is killed: starting one takes longer than it lives. */
const STANDBY = size(8, 24);

const SECRET = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;

it("each person has it once, or at most once where nobody can say, and nothing is lost", {
  timeout: SOAK_MS,
}, async () => {
  const [telegram, whatsapp] = [await startTelegram(), await startWhatsApp()];
  const receiver = await startStandIn(() => ({ body: { ok: true } }));
  const standIns = [telegram, whatsapp, receiver];
  for (const each of standIns) each.slow(ANSWER_MS);
  try {
    await withOutbox(async (outbox) => {
      const { account: number, close } = await reachedBy(outbox, whatsapp);
      const bot = await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url });
      const own = await outbox.account("webhook", { signing_secret: SECRET }, { allow_private_addresses: true });
      for (let id = 1; id <= DUE; id += 1) {
        await outbox.post(await outbox.conversation(bot, { chat_id: id }), [`for ${id}`], "hold");
        await outbox.post(await outbox.conversation(number, { phone: `1555${id}` }), [`for ${id}`], "reconcile");
        await outbox.post(await outbox.conversation(own, { url: `${receiver.url}/${id}` }), [`for ${id}`], "resend");
      }
      await outbox.deps.db.query("update conversations set last_inbound_at = clock_timestamp()");
      // Somebody else's receipts: without any, silence says nothing.
      const heard = { tenantId: DEFAULT_TENANT, channelAccountId: number };
      const alive = setInterval(() => void noteHeard(outbox.deps.db, heard), 500);
      const kills = await underFire(outbox).finally(() => clearInterval(alive));

      const of = await statuses(outbox);
      const held = of.get("telegram unknown") ?? 0;
      expect((of.get("telegram sent") ?? 0) + held).toBe(DUE);
      const texts = telegram.messages().map(({ text }) => text);
      expect(new Set(texts).size).toBe(texts.length);
      expect(texts.length).toBeGreaterThanOrEqual(of.get("telegram sent") ?? 0);

      expect(of.get("whatsapp delivered")).toBe(DUE);
      expect(once(whatsapp.messages().map(({ to }) => to))).toBe(DUE);

      expect(of.get("webhook sent")).toBe(DUE);
      // For a receiver that looks at the id each is once, however often it was told.
      expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(DUE);
      expect(new Set(receiver.requests.map(({ path }) => path)).size).toBe(DUE);

      // Otherwise nothing was put to the test.
      expect(kills).toBeGreaterThan(size(4, 50));
      const again = receiver.requests.length - DUE;
      console.info(
        `${kills} killed; Telegram: ${held} unknown of ${DUE}; WhatsApp: once each; webhooks: ${again} told again`,
      );
      await close();
    });
  } finally {
    await Promise.all(standIns.map((each) => each.close()));
  }
});

/** Two deliver; one of them is killed, and another takes its place, until nothing is left to do. Returns how many were. */
async function underFire(outbox: Outbox): Promise<number> {
  const ready = Array.from({ length: STANDBY + 2 }, () => standby(outbox));
  const active: TestProcess[] = [];
  const begin = async (): Promise<void> => {
    const next = await (ready.shift() as Promise<TestProcess>);
    next.signal("SIGUSR2");
    active.push(next);
  };
  let kills = 0;
  try {
    await Promise.all(ready);
    await begin();
    await begin();
    while ((await open(outbox)) > 0) {
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      if (kills === MOST_KILLS) continue;
      const [victim] = active.splice(Math.floor(Math.random() * active.length), 1);
      await victim?.kill();
      kills += 1;
      if (kills + STANDBY <= MOST_KILLS) ready.push(standby(outbox));
      await begin();
    }
    return kills;
  } finally {
    const left = await Promise.allSettled(ready);
    for (const each of active) await each.kill();
    for (const each of left) if (each.status === "fulfilled") await each.value.kill();
  }
}

async function standby(outbox: Outbox): Promise<TestProcess> {
  const env = {
    ...{ DATABASE_URL: outbox.url, STANDBY: "1", POINT: "none" },
    ...{ TIMEOUT_MS: String(TIMEOUT_MS), WINDOW_MS: String(WINDOW_MS) },
  };
  const child = startProcess([], { script: SCRIPT, env });
  await child.waitFor("ready");
  return child;
}

/** What is on its way, or will be. */
async function open({ deps }: Outbox): Promise<number> {
  const { rows } = await deps.db.query<{ n: number }>(
    `select count(*)::int as n
    from deliveries d
    join channel_accounts a using (tenant_id, channel_account_id)
    where d.status in ('pending', 'sending') or (a.kind = 'whatsapp' and d.status in ('unknown', 'sent'))`,
  );
  return rows[0]?.n ?? 0;
}

async function statuses({ deps }: Outbox): Promise<ReadonlyMap<string, number>> {
  const { rows } = await deps.db.query<{ which: string; n: number }>(
    `select a.kind || ' ' || d.status as which, count(*)::int as n
    from deliveries d
    join channel_accounts a using (tenant_id, channel_account_id)
    group by 1`,
  );
  return new Map(rows.map(({ which, n }) => [which, n]));
}

/** How many there are, where each is there once. */
function once(people: readonly string[]): number {
  expect(new Set(people).size).toBe(people.length);
  return people.length;
}
