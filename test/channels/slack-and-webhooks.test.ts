// Slack and signed webhooks as they are on the wire: what is sent, what is made of each answer, and what a request must prove.
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Address } from "../../src/core/channel.js";
import type { Account, ChannelAdapter, SendContext } from "../../src/delivery/channel.js";
import { isPrivateAddress } from "../../src/delivery/channels/public-request.js";
import { slack } from "../../src/delivery/channels/slack.js";
import { webhook } from "../../src/delivery/channels/webhook.js";
import { type SlackStandIn, type SlackTrouble, startSlack } from "../../src/testing/channels/slack.js";
import type { AccountRequest } from "../../src/testing/channels/stand-in.js";
import { startWebhookReceiver, type WebhookStandIn, type WebhookTrouble } from "../../src/testing/channels/webhook.js";

let workspace: SlackStandIn;
let receiver: WebhookStandIn;
beforeAll(async () => void ([workspace, receiver] = await Promise.all([startSlack(), startWebhookReceiver()])));
afterEach(() => [workspace, receiver].forEach((each) => each.mends()));
afterAll(async () => void (await Promise.all([workspace.close(), receiver.close()])));

const context = ({ credentials, settings }: AccountRequest, address: Address): SendContext => ({
  account: { channelAccountId: randomUUID(), credentials: { webhook_secret: "", ...credentials }, settings },
  address,
  ...{ token: randomUUID(), deliveryId: randomUUID(), refusals: 0, silentMs: null, signal: AbortSignal.timeout(2_000) },
});
const sendWith = async (
  adapter: ChannelAdapter,
  said: SendContext,
  buttons: readonly { id: string; label: string }[] = [],
) => {
  const [message] = adapter.render({ text: "**hello**", buttons }, said.address);
  if (message === undefined) throw new Error("nothing to send");
  return adapter.send(message, said);
};

describe("Slack", () => {
  const at = (channel = "C1", thread_ts = "1.1") => context(workspace.account("agent"), { channel, thread_ts });

  it("is sent as mrkdwn, in its thread, with the message's id in its metadata", async () => {
    const said = at("C2");
    const result = await sendWith(slack, said, [{ id: "yes", label: "Yes" }]);
    const [message] = workspace.messages("C2");
    expect(result).toEqual({ kind: "sent", messageId: `C2/${message?.ts}` });
    expect(message).toMatchObject({ threadTs: "1.1", text: "*hello*", buttons: [{ label: "Yes", value: "yes" }] });
    expect(message?.metadata).toMatchObject({
      event_payload: { delivery_id: said.deliveryId, token: said.token },
    });
  });

  it.each([
    ["rate_limited", { kind: "not_sent", afterMs: 1_000, spends: false }],
    ["channel_gone", { kind: "refused", unreachable: true }],
    ["unauthorized", { kind: "account_down", code: "token_revoked" }],
    // Slack says of it that the message may have been posted.
    ["fatal_error", { kind: "unknown" }],
    ["bad_gateway", { kind: "unknown", code: "http_502" }],
    ["cut_after", { kind: "unknown" }],
  ] satisfies [SlackTrouble, object][])("%s", async (trouble, expected) => {
    workspace.fails(trouble);
    expect(await sendWith(slack, at())).toMatchObject(expected);
    expect(await sendWith(slack, at())).toMatchObject({ kind: "sent" });
  });

  it("taken without an id is sent all the same", async () => {
    workspace.breaks({ fault: { status: 200, body: { ok: true } }, times: 1 });
    expect(await sendWith(slack, at())).toEqual({ kind: "sent", messageId: null });
  });

  it("a try is looked for in the conversation's history, where we may read it", async () => {
    for (const said of [at("C3"), context(workspace.account("agent"), { channel: "C3" })]) {
      expect(await slack.findSent?.(said)).toBe("absent");
      workspace.fails("cut_after");
      expect(await sendWith(slack, said)).toMatchObject({ kind: "unknown" });
      expect(await slack.findSent?.(said)).toEqual({ messageId: `C3/${workspace.messages("C3").at(-1)?.ts}` });
    }
    workspace.breaks({ fault: { status: 200, body: { ok: false, error: "missing_scope" } } });
    expect(await slack.findSent?.(at("C3"))).toBeNull();
  });

  const request = (body: string, options: Readonly<{ secret?: string; ageS?: number }> = {}) => {
    const timestamp = String(Math.floor(Date.now() / 1_000) - (options.ageS ?? 0));
    const proof = createHmac("sha256", options.secret ?? workspace.signingSecret)
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
  const at = (url = `${receiver.url}/hook`) => context(receiver.account("agent"), { url });
  const lastRequest = () => {
    const request = receiver.requests.at(-1);
    if (request === undefined) throw new Error("nothing was asked");
    return { headers: request.headers as Record<string, string>, text: request.text };
  };

  it("is what an independent verifier takes, with the same id in each try", async () => {
    const said = at(`${receiver.url}/twice`);
    for (const ok of [false, true]) {
      if (!ok) receiver.fails("cut_after");
      expect((await sendWith(webhook, said)).kind).toBe(ok ? "sent" : "unknown");
      const { headers, text } = lastRequest();
      expect(headers["webhook-id"]).toBe(said.deliveryId);
      const verified = new Webhook(receiver.signingSecret).verify(text, headers);
      expect(verified).toMatchObject({ type: "message", data: { text: "**hello**" } });
    }
    expect(receiver.messages("/twice")).toMatchObject([{ id: said.deliveryId, times: 2 }]);
  });

  it("is signed twice while one secret takes the other's place", async () => {
    const other = `whsec_${randomBytes(24).toString("base64")}`;
    const said = at();
    const signing_secret = `${receiver.signingSecret} ${other}`;
    await sendWith(webhook, { ...said, account: withCredentials(said.account, { signing_secret }) });
    const { headers, text } = lastRequest();
    for (const secret of [receiver.signingSecret, other]) {
      expect(() => new Webhook(secret).verify(text, headers)).not.toThrow();
    }
  });

  it("that isn't ours is not taken", async () => {
    const said = at(`${receiver.url}/forged`);
    const signing_secret = `whsec_${randomBytes(32).toString("base64")}`;
    const account = withCredentials(said.account, { signing_secret });
    expect(await sendWith(webhook, { ...said, account })).toMatchObject({ kind: "not_sent", code: "http_401" });
    expect(receiver.messages("/forged")).toEqual([]);
  });

  it.each([
    ["gone", { kind: "refused", code: "gone", unreachable: true }],
    ["redirect", { kind: "not_sent", code: "http_302" }],
    ["rate_limited", { kind: "not_sent", afterMs: 1_000, spends: false }],
    ["unavailable", { kind: "not_sent", code: "http_503" }],
  ] satisfies [WebhookTrouble, object][])("%s", async (trouble, expected) => {
    receiver.fails(trouble);
    expect(await sendWith(webhook, at())).toMatchObject(expected);
  });

  it("goes nowhere into one's own network, by whatever name", async () => {
    for (const url of [
      receiver.url,
      "http://localhost:1/",
      "http://[::1]:1/",
      "http://169.254.169.254/latest",
      "http://[::ffff:10.0.0.1]/",
    ]) {
      const said = at(url);
      const account = { ...said.account, settings: {} };
      const before = receiver.requests.length;
      expect(await sendWith(webhook, { ...said, account })).toMatchObject({
        kind: "refused",
        code: "private_address",
      });
      expect(receiver.requests).toHaveLength(before);
    }
    expect(["10.1.2.3", "192.168.0.1", "fd00::1", "fe80::1", "::ffff:7f00:1"].every(isPrivateAddress)).toBe(true);
    expect(["8.8.8.8", "2606:4700::1111"].some(isPrivateAddress)).toBe(false);
  });

  it("refused is certainly not sent", async () => {
    expect(await sendWith(webhook, at("http://127.0.0.1:1/"))).toMatchObject({
      kind: "not_sent",
      code: "ECONNREFUSED",
    });
  });
});

function withCredentials(account: Account, more: Readonly<Record<string, string>>): Account {
  return { ...account, credentials: { ...account.credentials, ...more } };
}
