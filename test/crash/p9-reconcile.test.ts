// P9 where the channel lets us find out: WhatsApp's receipts name the try they are of. The deliverer is killed, stopped or cut off at each
// point; the person has the message once, and it is known to have arrived.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { noteHeard } from "../../src/delivery/accounts.js";
import type { Fault } from "../../src/testing/channels/stand-in.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";
import { type Outbox, TIMEOUT_MS, withOutbox } from "../helpers/deliveries.js";
import { startProcess } from "../helpers/processes.js";
import { reachedBy } from "../helpers/receipts.js";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const SCRIPT = fileURLToPath(new URL("deliverer.mjs", import.meta.url));
/** So long a try's silence has to last before it counts. */
const WINDOW_MS = 1_500;

const TABLE: readonly (readonly [name: string, how: "kill" | "stop" | null, point: string, fault: Fault | null])[] = [
  ["nothing", null, "none", null],
  ["killed after the claim", "kill", "claimed", null],
  ["killed after the mark, before the request", "kill", "marked", null],
  ["killed after the answer, before the commit", "kill", "answered", null],
  ["killed after the commit", "kill", "settled", null],
  ["the channel takes it and cuts the connection", null, "none", "cut_after"],
  ["the connection is cut before it is taken", null, "none", "cut_before"],
  ["stopped past its lease before the request", "stop", "marked", null],
];

/** All of them by `npm run test:soak`. */
const QUICK = new Set(["claimed", "marked", "answered"]);
const ROWS = TABLE.filter(([, how, point]) => (how === "kill" && QUICK.has(point)) || size(0, 1) === 1);

it.each(ROWS)("%s: once", async (_name, how, point, fault) => {
  const provider = await startWhatsApp();
  try {
    await withOutbox(async (outbox) => {
      const { account, close } = await reachedBy(outbox, provider);
      const conversation = await outbox.conversation(account, { phone: "15550001" });
      await outbox.deps.db.query("update conversations set last_inbound_at = clock_timestamp()");
      const [delivery] = await outbox.post(conversation, ["once"], "reconcile");
      if (delivery === undefined) throw new Error("nothing was posted");
      if (fault !== null) provider.breaks({ fault, times: 1 });
      const child = how === null ? undefined : await victim(outbox, how, point);
      for (let n = 0; n < 2; n += 1) outbox.deliverer({ windowMs: WINDOW_MS });
      if (how === "stop") setTimeout(() => child?.signal("SIGCONT"), 5 * TIMEOUT_MS);
      // Somebody else's receipts: without any, silence says nothing.
      const alive = setInterval(
        () => void noteHeard(outbox.deps.db, { tenantId: DEFAULT_TENANT, channelAccountId: account }),
        200,
      );
      await until("it has arrived", async () => (await outbox.row(delivery)).status === "delivered", {
        timeoutMs: 30_000,
      });
      await new Promise((resolve) => setTimeout(resolve, 2 * TIMEOUT_MS));
      clearInterval(alive);
      await child?.stop();
      expect(provider.messages()).toHaveLength(1);
      expect((await outbox.row(delivery)).duplicate).toBe(false);
      await close();
    });
  } finally {
    await provider.close();
  }
});

async function victim(outbox: Outbox, how: "kill" | "stop", point: string) {
  const env = { DATABASE_URL: outbox.url, POINT: point, HOW: how, TIMEOUT_MS: String(TIMEOUT_MS) };
  const child = startProcess([], { script: SCRIPT, env });
  if (how === "kill") {
    await child.exited;
    return undefined;
  }
  await until("it has it", async () => {
    const { rows } = await outbox.deps.db.query("select 1 from delivery_attempts where wire_started_at is not null");
    return rows.length;
  });
  return child;
}
