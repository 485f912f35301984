// An account of WhatsApp in an outbox without an API: the stand-in's webhooks come in here, and only its receipts are taken.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type ChannelAccountId, DEFAULT_TENANT } from "../../src/core/ids.js";
import type { Account } from "../../src/delivery/channel.js";
import { whatsapp } from "../../src/delivery/channels/whatsapp.js";
import { noteReceipt } from "../../src/delivery/inbound.js";
import type { WhatsAppStandIn } from "../../src/testing/channels/whatsapp.js";
import type { Outbox } from "./deliveries.js";

export async function reachedBy(outbox: Outbox, provider: WhatsAppStandIn) {
  const credentials = { access_token: provider.accessToken, app_secret: provider.appSecret };
  const settings = { api_root: provider.url, phone_number_id: provider.phoneNumberId };
  const account: ChannelAccountId = await outbox.account("whatsapp", credentials, settings);
  const seen: Account = { channelAccountId: account, credentials, settings };
  const key = { tenantId: DEFAULT_TENANT, channelAccountId: account };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const headers = new Headers({ "x-hub-signature-256": String(request.headers["x-hub-signature-256"]) });
      const body = Buffer.concat(chunks);
      const brought = whatsapp.receive?.({ method: "POST", url: new URL("http://perdure.test"), headers, body }, seen);
      const receipts = Array.isArray(brought) ? brought.filter((event) => event.kind === "receipt") : [];
      void Promise.all(receipts.map((receipt) => noteReceipt(outbox.deps.db, { ...key, ...receipt }))).then(() =>
        response.end(),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  provider.webhook(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  return { account, close: () => new Promise((resolve) => server.close(resolve)) };
}
