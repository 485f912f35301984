// A channel of somebody's own, as docs/own-channels.md shows it.
import { asRecord, type ChannelAdapter, request, retryAfterMs, splitText, unanswered } from "perdure/channels";
import { z } from "zod";

export const pager: ChannelAdapter = {
  kind: "pager",
  credentials: z.looseObject({ key: z.string().min(1) }) as never,
  settings: z.looseObject({ api_root: z.string() }),
  address: z.object({ number: z.string() }),
  defaults: { onUnknown: "hold", timeoutMs: 10_000, perSecond: 5 },
  addressKey: ({ number }) => String(number),
  spacingMs: () => 0,
  render: ({ text }) => splitText(text, 160).map((part) => ({ kind: "text", payload: { text: part } })),
  async send({ payload }, { account, address, signal }) {
    const answer = await request(`${String(account.settings["api_root"])}/pages`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${account.credentials["key"]}` },
      body: JSON.stringify({ to: address["number"], text: payload["text"] }),
      signal,
    });
    // Nothing came back: it says whether the message can have left.
    if (answer.kind !== "answer") return unanswered(answer);
    if (answer.status === 429) {
      const afterMs = retryAfterMs(answer.headers, Date.now());
      return { kind: "not_sent", code: "rate_limited", afterMs, spends: false };
    }
    if (answer.status === 401) return { kind: "account_down", code: "unauthorized" };
    // What this provider doesn't promise to have dropped, it may have taken.
    if (answer.status >= 500) return { kind: "unknown", code: `http_${answer.status}` };
    if (answer.status >= 300) return { kind: "refused", code: `http_${answer.status}`, unreachable: false };
    const id = asRecord(answer.text)?.["id"];
    return { kind: "sent", messageId: typeof id === "string" ? id : null };
  },
};
