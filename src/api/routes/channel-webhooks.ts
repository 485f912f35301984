// Where channels bring what has come. No key of ours: the channel proves itself with its own signature, over the bytes as they came. It
// is answered as soon as everything is stored, whatever a run takes.
import { type Context, Hono } from "hono";
import type { ChannelAccountId } from "../../core/ids.js";
import { findAccount } from "../../delivery/accounts.js";
import { noAccount } from "../../engine/channel-accounts.js";
import { receiveInbound } from "../../engine/commands/receive-inbound.js";
import type { Engine } from "../../engine/engine.js";
import { readBytes } from "../body.js";
import type { ApiEnv } from "../env.js";
import { pathId } from "../request.js";

export function channelWebhookRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  const receive = async (c: Context<ApiEnv>): Promise<Response> => {
    const channelAccountId = pathId<ChannelAccountId>(c, "channel_account_id");
    const row = await findAccount(engine.deps.db, channelAccountId);
    if (row === undefined) throw noAccount(channelAccountId);
    const opened = engine.accounts.opened(row);
    const { method, url, headers } = c.req.raw;
    const body = await readBytes(c);
    const brought = opened.adapter.receive?.({ method, url: new URL(url), headers, body }, opened.account) ?? null;
    if (brought === null) return c.text("The signature is missing or wrong", 401);
    if ("status" in brought) return c.text(brought.text, brought.status);
    await receiveInbound(engine, opened, brought);
    return c.text("ok");
  };
  routes.get("/v1/channels/:channel_account_id/webhook", receive);
  routes.post("/v1/channels/:channel_account_id/webhook", receive);
  return routes;
}
