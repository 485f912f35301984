// What every channel has to keep, whoever wrote it: an adapter says what it knows about a message and nothing more, and sends once.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Address, Rendered, SendResult } from "../core/channel.js";
import type { Account, ChannelAdapter, SendContext } from "../delivery/channel.js";
import { type Answer, type Fault, startStandIn, type StandInServer } from "./channels/stand-in.js";

export type ChannelContract = Readonly<{
  adapter: ChannelAdapter;
  credentials: Readonly<Record<string, string>>;
  /** So that it speaks to a server at this URL. */
  settings(url: string): Readonly<Record<string, unknown>>;
  /** Two places in the channel; where its addresses are URLs, at this one. */
  addresses(url: string): readonly [Address, Address];
  /** How the provider answers when it has taken a message. */
  taken: Answer;
  /** How it says that it is asked too often. */
  limited: Answer;
}>;

export type ContractCheck = Readonly<{ name: string; run(): Promise<void> }>;

const TIMEOUT_MS = 1_000;

/**
 * Checks to be run as tests of an adapter that speaks HTTP; each rejects with what isn't kept.
 *
 * @example for (const { name, run } of channelContract({ adapter, … })) test(name, run);
 */
export function channelContract(of: ChannelContract): ContractCheck[] {
  const { adapter } = of;
  const send = (name: string, answer: Answer | Fault, judge: (sent: Sent) => void): ContractCheck => ({
    name,
    run: () => withServer(of, answer, async (place) => judge(await sendOnce(of, place))),
  });
  const known = (sent: Sent, kinds: readonly SendResult["kind"][]): void => {
    assert.ok(kinds.includes(sent.result.kind), `send said ${sent.result.kind}, not ${kinds.join(" or ")}`);
    assert.ok(sent.requests <= 1, `send made ${sent.requests} requests: it must not try again by itself`);
  };
  return [
    {
      name: "takes its own credentials, settings and addresses, and keeps addresses apart",
      run: () =>
        withServer(of, of.taken, async ({ account, addresses: [one, other] }) => {
          assert.ok(adapter.credentials.safeParse({ webhook_secret: "secret", ...account.credentials }).success);
          assert.ok(adapter.settings.safeParse(account.settings).success);
          assert.ok([one, other].every((address) => adapter.address.safeParse(address).success));
          assert.equal(adapter.addressKey(one), adapter.addressKey({ ...one }));
          assert.notEqual(adapter.addressKey(one), adapter.addressKey(other));
          assert.ok(adapter.spacingMs(one) >= 0);
        }),
    },
    {
      name: "renders the same twice, as JSON data, and loses nothing of a long text",
      run: () =>
        withServer(of, of.taken, async ({ addresses: [to] }) => {
          const words = Array.from({ length: 4_000 }, (_, n) => `word${n}`);
          const outgoing = { text: words.join(" ") };
          const rendered = adapter.render(outgoing, to);
          assert.ok(rendered.length > 0);
          assert.deepEqual(adapter.render(outgoing, to), rendered);
          assert.deepEqual(JSON.parse(JSON.stringify(rendered)), rendered);
          const whole = JSON.stringify(rendered);
          assert.ok(
            words.every((word) => whole.includes(word)),
            "a part of the text is missing",
          );
        }),
    },
    send("says that it was sent when it was taken", of.taken, (sent) => known(sent, ["sent"])),
    send("says that it was not sent when it is told to wait, and that it spends no try", of.limited, (sent) => {
      known(sent, ["not_sent"]);
      assert.ok(sent.result.kind === "not_sent" && !sent.result.spends);
    }),
    send("says that nobody knows when the connection is cut after it was taken", "cut_after", (sent) =>
      known(sent, ["unknown"]),
    ),
    send("says that nobody knows when no answer comes in time", "hang", (sent) => known(sent, ["unknown"])),
    send("never says that it was sent for a page of a proxy", { status: 502, body: "<html>" }, (sent) =>
      known(sent, ["unknown", "not_sent"]),
    ),
    {
      name: "says that it was not sent when nobody listens",
      async run() {
        // A port that is free, and none that fetch refuses by itself.
        const gone = await startStandIn(() => of.taken);
        await gone.close();
        const place = placeOf(of, gone.url);
        known({ result: await sendTo(of, place), requests: 0 }, ["not_sent"]);
      },
    },
    {
      name: "takes nothing from who can't prove that it is the channel",
      run: () =>
        withServer(of, of.taken, async ({ account }) => {
          const url = new URL("https://perdure.test/webhook");
          const forged = { method: "POST", url, headers: new Headers(), body: Buffer.from("{}") };
          assert.equal(adapter.receive?.(forged, account) ?? null, null);
        }),
    },
  ];
}

type Sent = Readonly<{ result: SendResult; requests: number }>;
type Place = Readonly<{ account: Account; addresses: readonly [Address, Address]; server: StandInServer | null }>;

function placeOf(of: ChannelContract, url: string, server: StandInServer | null = null): Place {
  const account = { channelAccountId: randomUUID(), credentials: of.credentials, settings: of.settings(url) };
  return { account, addresses: of.addresses(url), server };
}

async function withServer(of: ChannelContract, answer: Answer | Fault, work: (place: Place) => Promise<void>) {
  const server = await startStandIn(() => (typeof answer === "string" ? of.taken : answer));
  if (typeof answer === "string") server.breaks({ fault: answer });
  try {
    await work(placeOf(of, server.url, server));
  } finally {
    await server.close();
  }
}

async function sendOnce(of: ChannelContract, place: Place): Promise<Sent> {
  const result = await sendTo(of, place);
  return { result, requests: place.server?.requests.length ?? 0 };
}

function sendTo({ adapter }: ChannelContract, { account, addresses: [address] }: Place): Promise<SendResult> {
  const [message] = adapter.render({ text: "hello" }, address) as [Rendered];
  const context: SendContext = {
    ...{ account, address, token: randomUUID(), deliveryId: randomUUID(), refusals: 0, silentMs: 0 },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  };
  return adapter.send(message, context);
}
