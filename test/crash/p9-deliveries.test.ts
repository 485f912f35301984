// P9: a message is handed to a channel at most once, unless the channel lets us find out. The deliverer is a real process, killed with
// SIGKILL or stopped past its lease at each point of a delivery; then two others take over at once.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { OnUnknown } from "../../src/core/channel.js";
import type { Fault } from "../../src/testing/channels/stand-in.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { type Outbox, TIMEOUT_MS, withOutbox } from "../helpers/deliveries.js";
import { startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
const POLICIES = ["hold", "resend"] as const satisfies readonly OnUnknown[];
type Expected = Readonly<Record<(typeof POLICIES)[number], readonly [copies: number, status: string]>>;

const SENT: Expected = { hold: [1, "sent"], resend: [1, "sent"] };
const DOUBTFUL: Expected = { hold: [1, "unknown"], resend: [2, "sent"] };

/** What happens to the deliverer, or at the channel: copies that the person got, and what is known in the end. */
const TABLE: readonly (readonly [
  name: string,
  how: "kill" | "stop" | null,
  point: string,
  fault: Fault | null,
  Expected,
])[] = [
  ["nothing", null, "none", null, SENT],
  ["killed after the claim", "kill", "claimed", null, SENT],
  ["killed after the mark, before the request", "kill", "marked", null, { hold: [0, "unknown"], resend: [1, "sent"] }],
  ["killed after the answer, before the commit", "kill", "answered", null, DOUBTFUL],
  ["killed after the commit", "kill", "settled", null, SENT],
  ["the channel takes it and cuts the connection", null, "none", "cut_after", DOUBTFUL],
  ["the channel takes it and never answers", null, "none", "hang", DOUBTFUL],
  ["told to wait, then taken", null, "none", { status: 429, body: rateLimit() }, SENT],
  ["a page of a proxy", null, "none", { status: 502, body: "<html>" }, { hold: [0, "unknown"], resend: [1, "sent"] }],
  ["stopped past its lease before the request", "stop", "marked", null, SENT],
];

function rateLimit() {
  return { ok: false, error_code: 429, description: "Too Many Requests", parameters: { retry_after: 0.2 } };
}

it.each(TABLE)("%s: what each policy makes of it", async (_name, how, point, fault, expected) => {
  const telegram = await startTelegram();
  try {
    await withOutbox(async (outbox) => {
      const account = await outbox.account("telegram", { token: telegram.token }, { api_root: telegram.url });
      const chats = await Promise.all(
        POLICIES.map(async (policy, index) => {
          const conversation = await outbox.conversation(account, { chat_id: index + 1 });
          const [delivery] = await outbox.post(conversation, [policy], policy);
          return { policy, chatId: index + 1, delivery: delivery as NonNullable<typeof delivery> };
        }),
      );
      if (fault !== null) telegram.breaks({ fault, times: POLICIES.length, if: ({ path }) => path.includes("/send") });
      const resume = how === null ? undefined : await victim(outbox, how, point);
      const others = [outbox.deliverer(), outbox.deliverer()];
      await resume?.();
      for (const { policy, chatId, delivery } of chats) {
        const [copies, status] = expected[policy];
        const settled = async () => (await outbox.row(delivery)).status === status;
        await until(`${policy} to be ${status}`, settled, { timeoutMs: 20_000 });
        await until(`${policy} to have arrived`, () => telegram.messages(chatId).length >= copies);
      }
      // Nothing more comes of it.
      await new Promise((resolve) => setTimeout(resolve, 2 * TIMEOUT_MS));
      for (const other of others) await other.stop();
      const got = Object.fromEntries(chats.map(({ policy, chatId }) => [policy, telegram.messages(chatId).length]));
      expect(got).toEqual(Object.fromEntries(POLICIES.map((policy) => [policy, expected[policy][0]])));
    });
  } finally {
    await telegram.close();
  }
});

/** Dies there with all that is to be sent in its hands. One that was stopped goes on once its lease is over and others had their turn. */
async function victim(outbox: Outbox, how: "kill" | "stop", point: string): Promise<(() => Promise<void>) | undefined> {
  const env = {
    DATABASE_URL: outbox.url,
    POINT: point,
    HOW: how,
    COUNT: String(POLICIES.length),
    TIMEOUT_MS: String(TIMEOUT_MS),
  };
  const child = startProcess([], { script: SCRIPT, env });
  if (how === "kill") {
    await child.exited;
    return undefined;
  }
  await until("it is stopped", async () => (await leasedOut(outbox)) === POLICIES.length);
  return async () => {
    await until("its lease is over", async () => (await leasedOut(outbox)) === 0, { timeoutMs: 20_000 });
    child.signal("SIGCONT");
    await until("it has put them back, or left them", async () => (await unsettled(outbox)) === 0, {
      timeoutMs: 20_000,
    });
    await child.stop();
  };
}

async function leasedOut({ deps }: Outbox): Promise<number> {
  const { rows } = await deps.db.query<{ n: number }>(
    "select count(*)::int as n from deliveries where status = 'sending'",
  );
  return rows[0]?.n ?? 0;
}

async function unsettled({ deps }: Outbox): Promise<number> {
  const { rows } = await deps.db.query<{ n: number }>(
    "select count(*)::int as n from deliveries where status <> 'sent'",
  );
  return rows[0]?.n ?? 0;
}
