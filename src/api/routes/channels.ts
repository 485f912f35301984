// Accounts of channels, their conversations, and what goes out to them.
import { Hono } from "hono";
import { z } from "zod";
import { DELIVERY_STATUSES } from "../../core/channel.js";
import { EngineError } from "../../core/errors.js";
import type { ChannelAccountId, DeliveryId, TenantId, ThreadId } from "../../core/ids.js";
import { type AccountRow, getAccount, listAccounts } from "../../delivery/accounts.js";
import { listConversations } from "../../delivery/conversations.js";
import { listDeliveries, resolveDelivery } from "../../delivery/deliveries.js";
import { noAccount } from "../../engine/channel-accounts.js";
import { announceAccount } from "../../engine/announce.js";
import { changeAccount, createAccount } from "../../engine/commands/create-account.js";
import { putConversation } from "../../engine/commands/put-conversation.js";
import { accountRecord, conversationRecord, deliveryRecord } from "../../engine/delivery-record.js";
import type { Engine } from "../../engine/engine.js";
import { ask } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { integer, one, pathId, readBody, readQuery } from "../request.js";
import { accountCreate, accountPatch, conversationPut, deliveryResolve } from "../schemas/channels.js";
import { uuid } from "../schemas/parts.js";

const page = {
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
};
export const conversationList = z.object({ thread_id: one.pipe(uuid.optional()), ...page });
export const deliveryList = z.object({
  thread_id: one.pipe(uuid.optional()),
  status: one.pipe(z.enum(DELIVERY_STATUSES).optional()),
  ...page,
});

export function channelRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { deps, accounts } = engine;
  const answer = (url: string, account: AccountRow) => accountRecord(account, webhookUrl(url, account));

  routes.post("/v1/channel-accounts", async (c) => {
    const body = await readBody(c, accountCreate);
    const create = { ...body, tenantId: c.get("tenantId"), once: onceOf(engine, c) };
    const { account, again } = await createAccount(deps, accounts, create);
    if (again) markReplayed(c);
    const url = webhookUrl(c.req.url, account);
    const announced = await announceAccount(engine, account, url);
    return json(c, { ...accountRecord(account, url), announced }, again ? 200 : 201);
  });

  routes.get("/v1/channel-accounts", async (c) => {
    const found = await listAccounts(deps.db, { tenantId: c.get("tenantId") });
    return json(
      c,
      found.map((account) => answer(c.req.url, account)),
    );
  });

  routes.get("/v1/channel-accounts/:channel_account_id", async (c) => {
    const channelAccountId = pathId<ChannelAccountId>(c, "channel_account_id");
    const account = await getAccount(deps.db, { tenantId: c.get("tenantId"), channelAccountId });
    if (account === undefined) throw noAccount(channelAccountId);
    return json(c, answer(c.req.url, account));
  });

  /** New credentials or settings, or a pause; an account that its channel has refused goes on with `paused: false`. */
  routes.patch("/v1/channel-accounts/:channel_account_id", async (c) => {
    const key = { tenantId: c.get("tenantId"), channelAccountId: pathId<ChannelAccountId>(c, "channel_account_id") };
    const { credentials = null, settings = null, paused = null } = await readBody(c, accountPatch);
    const account = await changeAccount(deps, accounts, key, { credentials, settings, paused });
    const url = webhookUrl(c.req.url, account);
    const announced =
      settings === null && credentials === null ? undefined : await announceAccount(engine, account, url);
    return json(c, { ...accountRecord(account, url), ...(announced && { announced }) });
  });

  routes.get("/v1/conversations", async (c) => {
    const { thread_id: threadId, ...rest } = readQuery(c, conversationList);
    const { within } = await ask(engine, c, "threads:search", {});
    const filter = { tenantId: c.get("tenantId"), threadId: (threadId ?? null) as ThreadId | null, within, ...rest };
    return json(c, (await listConversations(deps.db, filter)).map(conversationRecord));
  });

  /** Ties an address to a thread, a new one unless given; the same again changes nothing. */
  routes.put("/v1/conversations", async (c) => {
    const body = await readBody(c, conversationPut);
    const { conversation, made } = await putConversation(engine, {
      tenantId: c.get("tenantId"),
      channelAccountId: body.channel_account_id as ChannelAccountId,
      address: body.address,
      threadId: (body.thread_id ?? null) as ThreadId | null,
      timeZone: body.time_zone ?? null,
      locale: body.locale ?? null,
    });
    return json(c, conversationRecord(conversation), made ? 201 : 200);
  });

  /** Newest first; what they say is content, and isn't told here. */
  routes.get("/v1/deliveries", async (c) => {
    const { thread_id: threadId, status = null, ...rest } = readQuery(c, deliveryList);
    const { within } = await ask(engine, c, "threads:search", {});
    const ofThread = { threadId: (threadId ?? null) as ThreadId | null, within };
    const filter = { tenantId: c.get("tenantId"), ...ofThread, status, ...rest };
    return json(c, (await listDeliveries(deps.db, filter)).map(deliveryRecord));
  });

  routes.get("/v1/deliveries/:delivery_id", async (c) => {
    return json(c, deliveryRecord(await oneDelivery(c.get("tenantId"), pathId<DeliveryId>(c, "delivery_id"))));
  });

  /** Of one that was left to a person: it is sent again, or it did arrive. */
  routes.post("/v1/deliveries/:delivery_id/resolve", async (c) => {
    const key = { tenantId: c.get("tenantId"), deliveryId: pathId<DeliveryId>(c, "delivery_id") };
    const { as: how } = await readBody(c, deliveryResolve);
    const before = await oneDelivery(key.tenantId, key.deliveryId);
    if (!(await resolveDelivery(deps.db, { ...key, how }))) {
      throw new EngineError("conflict", `Delivery ${key.deliveryId} is ${before.status}: there is nothing to resolve`, {
        details: { delivery_id: key.deliveryId, status: before.status },
      });
    }
    deps.notifier.notify("deliveries");
    return json(c, deliveryRecord(await oneDelivery(key.tenantId, key.deliveryId)));
  });

  async function oneDelivery(tenantId: TenantId, deliveryId: DeliveryId) {
    const filter = { tenantId, deliveryId, threadId: null, status: null, limit: 1, offset: 0 };
    const [delivery] = await listDeliveries(deps.db, filter);
    if (delivery === undefined) throw new EngineError("not_found", `Delivery ${deliveryId} not found`);
    return delivery;
  }

  return routes;
}

function webhookUrl(requestUrl: string, { channelAccountId }: AccountRow): string {
  return new URL(`/v1/channels/${channelAccountId}/webhook`, requestUrl).href;
}
