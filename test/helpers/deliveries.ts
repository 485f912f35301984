// An outbox with a bot's account and what is to be sent, without a graph; deliverers of this process, and others that can be killed.
import { randomUUID } from "node:crypto";
import { openParts } from "../../src/compose.js";
import type { OnUnknown } from "../../src/core/channel.js";
import type { Db, Deps } from "../../src/core/deps.js";
import {
  type ChannelAccountId,
  type ConversationId,
  DEFAULT_TENANT,
  type DeliveryId,
  type ThreadId,
} from "../../src/core/ids.js";
import { insertAccount } from "../../src/delivery/accounts.js";
import type { ChannelAdapter } from "../../src/delivery/channel.js";
import { CHANNELS } from "../../src/delivery/channels/all.js";
import { insertConversation } from "../../src/delivery/conversations.js";
import { postDeliveries, postedOf } from "../../src/delivery/outbox.js";
import { createAccounts } from "../../src/engine/channel-accounts.js";
import { createDeliverer } from "../../src/engine/loops/deliverer.js";
import type { Loop } from "../../src/engine/loops/loop.js";
import { createLog } from "../../src/observe/log.js";
import { installClock, moveClock, withMovableClock } from "../../src/testing/clock.js";
import { createTestDatabase } from "./database.js";
import { until } from "./wait.js";

export type Outbox = Readonly<{
  url: string;
  deps: Deps;
  account(kind: string, credentials: Readonly<Record<string, string>>, settings: object): Promise<ChannelAccountId>;
  conversation(account: ChannelAccountId, address: Readonly<Record<string, string | number>>): Promise<ConversationId>;
  post(conversation: ConversationId, texts: readonly string[], onUnknown: OnUnknown): Promise<DeliveryId[]>;
  row(
    delivery: DeliveryId,
  ): Promise<Readonly<{ status: string; attempts: number; error_code: string | null; duplicate: boolean }>>;
  /** Started; stopped with the outbox unless before. */
  deliverer(options?: Readonly<{ windowMs?: number; concurrency?: number }>): Loop;
}>;

/** Of a send, so that leases are short. */
export const TIMEOUT_MS = 500;
/** Where the clock is moved past leases: so long that a busy machine doesn't matter. */
export const MOVABLE_TIMEOUT_MS = 5_000;

const channelsWithin = (timeoutMs: number) =>
  new Map(
    [...CHANNELS].map(([kind, adapter]): [string, ChannelAdapter] => [
      kind,
      { ...adapter, defaults: { ...adapter.defaults, timeoutMs } },
    ]),
  );

/** `movable`: the clock of its `url` can be moved. */
export async function withOutbox<T>(
  work: (outbox: Outbox) => Promise<T>,
  { movable = false }: Readonly<{ movable?: boolean }> = {},
): Promise<T> {
  const db = await createTestDatabase();
  const log = createLog(process.env.PERDURE_TEST_LOG ?? "silent");
  if (movable) await installClock(db.db);
  const url = movable ? withMovableClock(db.url) : db.url;
  const parts = openParts({ databaseUrl: url, bodies: "memory:", log, applicationName: "test" });
  const { deps } = parts;
  const accounts = createAccounts(channelsWithin(movable ? MOVABLE_TIMEOUT_MS : TIMEOUT_MS), parts.keys);
  const loops: Loop[] = [];
  const tenantId = DEFAULT_TENANT;
  const threadOf = new Map<ConversationId, ThreadId>();
  try {
    return await work({
      url,
      deps,
      async account(kind, credentials, settings) {
        const key = { tenantId, channelAccountId: randomUUID() as ChannelAccountId };
        const sealed = accounts.sealed(key, { webhook_secret: "secret", ...credentials });
        const row = {
          ...key,
          kind,
          name: randomUUID(),
          credentials: sealed,
          settings: settings as never,
          perSecond: null,
        };
        await insertAccount(deps.db, row);
        return key.channelAccountId;
      },
      async conversation(channelAccountId, address) {
        const threadId = randomUUID() as ThreadId;
        await deps.db.query("insert into threads (tenant_id, thread_id) values ($1, $2)", [tenantId, threadId]);
        const conversationId = randomUUID() as ConversationId;
        const place = { tenantId, channelAccountId, conversationId, threadId };
        await insertConversation(deps.db, { ...place, address, addressKey: JSON.stringify(address), person: null });
        threadOf.set(conversationId, threadId);
        return conversationId;
      },
      async post(conversationId, texts, onUnknown) {
        const posted = postedOf(
          texts.map((text) => ({ kind: "text", payload: { text } })),
          {
            ...{ newId: () => randomUUID() as DeliveryId, source: "notice", sourceId: randomUUID(), onUnknown },
            ...{ threadId: threadOf.get(conversationId) as ThreadId, runId: null, conversationId },
          },
        );
        await deps.db.tx((sql) => postDeliveries(sql, tenantId, posted));
        return posted.map(({ delivery_id: id }) => id);
      },
      async row(deliveryId) {
        const { rows } = await deps.db.query(
          "select status, attempts, error_code, duplicate from deliveries where delivery_id = $1",
          [deliveryId],
        );
        return rows[0] as Awaited<ReturnType<Outbox["row"]>>;
      },
      deliverer(options = {}) {
        const loop = createDeliverer(deps, { accounts, owner: randomUUID(), pollMs: 100, ...options });
        loop.start();
        loops.push(loop);
        return loop;
      },
    });
  } finally {
    for (const loop of loops) await loop.stop();
    await parts.close();
    await db.close();
  }
}

/** Due sooner than this is due: who moves the clock then might move it past a message's lease. */
const AT_ONCE_MS = 20;

/** Moves the clock on by so much, from one thing that deliverers have to do to the next, each of which they have done then. */
export async function letTimePass(db: Db, byMs: number): Promise<void> {
  for (let leftMs = byMs; ; ) {
    const dueMs = await nothingIsDue(db);
    if (leftMs <= 0) return;
    const stepMs = Math.min(leftMs, Math.max(dueMs, AT_ONCE_MS));
    await moveClock(db, stepMs);
    leftMs -= stepMs;
  }
}

/** Waits until nothing is on its way or due; in how many ms something is. */
async function nothingIsDue(db: Db): Promise<number> {
  return until("nothing is due, or on its way", () =>
    db.tx(async (sql) => {
      // Of one moment: what is claimed between two looks would be neither.
      await sql.query("set transaction isolation level repeatable read");
      const { rows } = await sql.query<{ ms: number | null; sending: boolean }>(
        "select next_delivery_in_ms() as ms, exists (select 1 from deliveries where status = 'sending') as sending",
      );
      const { ms = null, sending = true } = rows[0] ?? {};
      const dueMs = ms ?? Number.POSITIVE_INFINITY;
      return !sending && dueMs > AT_ONCE_MS && dueMs;
    }),
  );
}
