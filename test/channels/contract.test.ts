// One contract for every channel: those that come with perdure, and one of somebody's own, which is registered as users do.
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { createPerdure } from "perdure";
import { describe, expect, it } from "vitest";
import { slack } from "../../src/delivery/channels/slack.js";
import { telegram } from "../../src/delivery/channels/telegram.js";
import { webhook } from "../../src/delivery/channels/webhook.js";
import { whatsapp } from "../../src/delivery/channels/whatsapp.js";
import { asAdapter, channelsByKind } from "../../src/engine/own-channels.js";
import { type ChannelContract, channelContract } from "../../src/testing.js";
import { createTestDatabase } from "../helpers/database.js";
import { pager } from "./own-channel.js";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const limited = {
  status: 429,
  body: { ok: false, error_code: 429, description: "Too Many Requests", parameters: { retry_after: 1 } },
};

const CONTRACTS: readonly ChannelContract[] = [
  {
    adapter: pager,
    credentials: { key: "secret" },
    settings: (api_root) => ({ api_root }),
    addresses: () => [{ number: "1" }, { number: "2" }],
    taken: { body: { id: "p1" } },
    limited: { status: 429, body: "" },
  },
  {
    adapter: telegram,
    credentials: { token: "1000:stand-in-for-telegram", webhook_secret: "secret" },
    settings: (api_root) => ({ api_root }),
    addresses: () => [{ chat_id: 1 }, { chat_id: 2 }],
    taken: { body: { ok: true, result: { message_id: 1 } } },
    limited,
  },
  {
    adapter: whatsapp,
    credentials: { access_token: "token", app_secret: "secret", webhook_secret: "secret" },
    settings: (api_root) => ({ api_root, phone_number_id: "100" }),
    addresses: () => [{ phone: "15550001" }, { phone: "15550002" }],
    taken: { body: { messaging_product: "whatsapp", messages: [{ id: "wamid.1" }] } },
    limited: { status: 429, body: { error: { code: 130_429, message: "Rate limit hit" } } },
  },
  {
    adapter: slack,
    credentials: { bot_token: "xoxb", signing_secret: "secret", webhook_secret: "secret" },
    settings: (api_root) => ({ api_root }),
    addresses: () => [{ channel: "C1" }, { channel: "C2" }],
    taken: { body: { ok: true, channel: "C1", ts: "1.2" } },
    limited: { status: 429, body: "" },
  },
  {
    adapter: webhook,
    credentials: { signing_secret: SECRET, webhook_secret: "secret" },
    settings: () => ({ allow_private_addresses: true }),
    addresses: (url) => [{ url: `${url}/one` }, { url: `${url}/two` }],
    taken: { body: "" },
    limited: { status: 429, body: "" },
  },
];

describe.each(CONTRACTS)("$adapter.kind", (contract) => {
  for (const { name, run } of channelContract(contract)) it(name, run);
});

describe("a channel of one's own", () => {
  it("is one like the others, once it was given", async () => {
    const database = await createTestDatabase();
    const graph = new StateGraph(MessagesAnnotation).addNode("rest", () => ({})).addEdge("__start__", "rest");
    const perdure = createPerdure({
      ...{ databaseUrl: database.url, bodies: "memory:", graphs: { agent: graph }, logLevel: "silent" as const },
      ...{ channels: [pager], loops: [], auth: "open" as const },
    });
    await perdure.start();
    const account = {
      kind: "pager",
      name: "p",
      credentials: { key: "k" },
      settings: { assistant_id: "agent", api_root: "http://pager.test" },
    };
    const post = (body: object) =>
      perdure.fetch(
        new Request("http://app.test/v1/channel-accounts", {
          ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
        }),
      );
    expect((await post(account)).status).toBe(201);
    const lacking = await post({ ...account, name: "q", credentials: {} });
    expect([lacking.status, await lacking.text()]).toEqual([422, expect.stringContaining("credentials.key")]);
    await perdure.stop();
    await database.close();
  });

  it("is refused with what it lacks, or where there is one of its kind", () => {
    expect(asAdapter(pager, "channels[0]")).toBe(pager);
    const { send: _, ...mute } = pager;
    expect(() => asAdapter(mute, "channels[0]")).toThrow(/channels\[0\] is no channel adapter: it lacks send\(\)/);
    expect(() => channelsByKind([telegram, { ...pager, kind: "telegram" }])).toThrow(/two channels of kind "telegram"/);
  });
});
