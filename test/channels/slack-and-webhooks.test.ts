// Slack and signed webhooks as they are on the wire: what is sent, what is made of each answer, and what a request must prove.
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ChannelAdapter, SendContext } from "../../src/delivery/channel.js";
import { isPrivateAddress } from "../../src/delivery/channels/public-request.js";
import { slack } from "../../src/delivery/channels/slack.js";
import { webhook } from "../../src/delivery/channels/webhook.js";
import {
  type Answer,
  startStandIn,
  type StandInRequest,
  type StandInServer,
} from "../../src/testing/channels/stand-in.js";

let server: StandInServer;
let answer: Answer;
const lastRequest = (): StandInRequest => {
  const request = server.requests.at(-1);
  if (request === undefined) throw new Error("nothing was asked");
  return request;
};
beforeAll(async () => void (server = await startStandIn(() => answer)));
afterAll(() => server.close());

const SECRET = `whsec_${randomBytes(32).toString("base64")}`;
const context = (address: SendContext["address"], more: Partial<SendContext> = {}): SendContext => ({
  account: {
    channelAccountId: randomUUID(),
    credentials: { bot_token: "xoxb", signing_secret: "signing", webhook_secret: "" },
    settings: { api_root: server.url, allow_private_addresses: true },
  },
  address,
  ...{ token: randomUUID(), deliveryId: randomUUID(), refusals: 0, silentMs: null, signal: AbortSignal.timeout(2_000) },
  ...more,
});
const sendWith = async (adapter: ChannelAdapter, said: SendContext, given: Answer) => {
  answer = given;
  const [message] = adapter.render({ text: "**hello**" }, said.address);
  if (message === undefined) throw new Error("nothing to send");
  return adapter.send(message, said);
};

describe("Slack", () => {
  const at = () => context({ channel: "C1", thread_ts: "1.1" });

  it("is sent as mrkdwn, in its thread, with the message's id in its metadata", async () => {
    const said = at();
    expect(await sendWith(slack, said, { body: { ok: true, ts: "2.2" } })).toEqual({
      kind: "sent",
      messageId: "C1/2.2",
    });
    const { path, body } = server.requests.at(-1) ?? {};
    expect(path).toBe("/chat.postMessage");
    const payload = { delivery_id: said.deliveryId, token: said.token };
    expect(body).toMatchObject({
      channel: "C1",
      thread_ts: "1.1",
      text: "*hello*",
      metadata: { event_payload: payload },
    });
  });

  it.each([
    [
      "told to wait",
      { status: 429, body: "", headers: { "retry-after": "7" } },
      { kind: "not_sent", afterMs: 7_000, spends: false },
    ],
    [
      "a channel that is gone",
      { body: { ok: false, error: "channel_not_found" } },
      { kind: "refused", unreachable: true },
    ],
    [
      "a token that is revoked",
      { body: { ok: false, error: "token_revoked" } },
      { kind: "account_down", code: "token_revoked" },
    ],
    [
      "a fatal error, of which Slack says that it may have been posted",
      { body: { ok: false, error: "fatal_error" } },
      { kind: "unknown" },
    ],
    ["a page of a proxy", { status: 502, body: "<html>" }, { kind: "unknown", code: "http_502" }],
    ["taken without an id", { body: { ok: true } }, { kind: "sent", messageId: null }],
  ] satisfies [string, Answer, object][])("%s", async (_, given, expected) => {
    expect(await sendWith(slack, at(), given)).toMatchObject(expected);
  });

  it("a try is looked for in the conversation's history", async () => {
    const said = at();
    answer = {
      body: { ok: true, messages: [{ ts: "3.3", metadata: { event_payload: { delivery_id: said.deliveryId } } }] },
    };
    expect(await slack.findSent?.(said)).toEqual({ messageId: "C1/3.3" });
    answer = { body: { ok: true, messages: [] } };
    expect(await slack.findSent?.(said)).toBe("absent");
    answer = { body: { ok: false, error: "missing_scope" } };
    expect(await slack.findSent?.(said)).toBeNull();
  });

  const request = (body: string, options: Readonly<{ secret?: string; ageS?: number }> = {}) => {
    const timestamp = String(Math.floor(Date.now() / 1_000) - (options.ageS ?? 0));
    const proof = createHmac("sha256", options.secret ?? "signing")
      .update(`v0:${timestamp}:${body}`)
      .digest("hex");
    const headers = new Headers({ "x-slack-request-timestamp": timestamp, "x-slack-signature": `v0=${proof}` });
    return { method: "POST", url: new URL("http://perdure.test"), headers, body: Buffer.from(body) };
  };
  const message = JSON.stringify({
    event_id: "E1",
    event: { type: "message", channel: "C1", user: "U1", text: "hi 👋", ts: "1.2" },
  });

  it("a message that proves itself is taken; one that is forged, altered or old is not", () => {
    const { account } = at();
    const [event] = slack.receive?.(request(message), account) as readonly object[];
    expect(event).toMatchObject({ kind: "message", externalId: "E1", text: "hi 👋", address: { channel: "C1" } });
    expect(slack.receive?.(request(message, { secret: "other" }), account)).toBeNull();
    expect(
      slack.receive?.({ ...request(message), body: Buffer.from(message.replace("hi", "ho")) }, account),
    ).toBeNull();
    expect(slack.receive?.(request(message, { ageS: 600 }), account)).toBeNull();
  });

  it("answers the handshake, and reads presses; what bots write is not for it", () => {
    const { account } = at();
    const handshake = JSON.stringify({ type: "url_verification", challenge: "42" });
    expect(slack.receive?.(request(handshake), account)).toEqual({ status: 200, text: "42" });
    const bot = JSON.stringify({
      event_id: "E2",
      event: { type: "message", bot_id: "B1", channel: "C1", user: "U1", text: "x" },
    });
    expect(slack.receive?.(request(bot), account)).toEqual([]);
    const press = {
      type: "block_actions",
      user: { id: "U1" },
      channel: { id: "C1" },
      actions: [{ value: "ap:x:y" }],
      trigger_id: "T1",
    };
    const form = `payload=${encodeURIComponent(JSON.stringify(press))}`;
    expect(slack.receive?.(request(form), account)).toMatchObject([{ kind: "press", id: "ap:x:y", externalId: "T1" }]);
  });
});

describe("a signed webhook", () => {
  const at = (url = `${server.url}/hook`) => {
    const said = context({ url });
    const credentials = { signing_secret: SECRET, webhook_secret: "" };
    return { ...said, account: { ...said.account, credentials } };
  };

  it("is what an independent verifier takes, with the same id in each try", async () => {
    const said = at();
    for (const ok of [false, true]) {
      const result = await sendWith(webhook, said, { status: ok ? 200 : 503, body: "" });
      expect(result.kind).toBe(ok ? "sent" : "not_sent");
      const { headers, body } = lastRequest();
      expect(headers["webhook-id"]).toBe(said.deliveryId);
      const verified = new Webhook(SECRET).verify(JSON.stringify(body), headers as Record<string, string>);
      expect(verified).toMatchObject({ type: "message", data: { text: "**hello**" } });
    }
  });

  it("is signed twice while one secret takes the other's place", async () => {
    const other = `whsec_${randomBytes(24).toString("base64")}`;
    const said = at();
    const credentials = { ...said.account.credentials, signing_secret: `${SECRET} ${other}` };
    await sendWith(webhook, { ...said, account: { ...said.account, credentials } }, { body: "" });
    const { headers, body } = lastRequest();
    for (const secret of [SECRET, other]) {
      expect(() => new Webhook(secret).verify(JSON.stringify(body), headers as Record<string, string>)).not.toThrow();
    }
  });

  it.each([
    ["gone for good", { status: 410, body: "" }, { kind: "refused", code: "gone", unreachable: true }],
    [
      "a redirect, which is not followed",
      { status: 302, body: "", headers: { location: "http://127.0.0.1:1/" } },
      { kind: "not_sent", code: "http_302" },
    ],
    [
      "told to wait",
      { status: 429, body: "", headers: { "retry-after": "3" } },
      { kind: "not_sent", afterMs: 3_000, spends: false },
    ],
  ] satisfies [string, Answer, object][])("%s", async (_, given, expected) => {
    expect(await sendWith(webhook, at(), given)).toMatchObject(expected);
  });

  it("goes nowhere into one's own network, by whatever name", async () => {
    for (const url of [
      server.url,
      "http://localhost:1/",
      "http://[::1]:1/",
      "http://169.254.169.254/latest",
      "http://[::ffff:10.0.0.1]/",
    ]) {
      const said = at(url);
      const account = { ...said.account, settings: {} };
      const before = server.requests.length;
      expect(await sendWith(webhook, { ...said, account }, { body: "" })).toMatchObject({
        kind: "refused",
        code: "private_address",
      });
      expect(server.requests).toHaveLength(before);
    }
    expect(["10.1.2.3", "192.168.0.1", "fd00::1", "fe80::1", "::ffff:7f00:1"].every(isPrivateAddress)).toBe(true);
    expect(["8.8.8.8", "2606:4700::1111"].some(isPrivateAddress)).toBe(false);
  });

  it("refused is certainly not sent", async () => {
    expect(await sendWith(webhook, at("http://127.0.0.1:1/"), { body: "" })).toMatchObject({
      kind: "not_sent",
      code: "ECONNREFUSED",
    });
  });
});
