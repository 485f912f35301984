// The web widget: an inbox that browsers read. A message is there when its row says that it is sent, so no byte ever leaves; what browsers
// bring comes through the widget's own routes.
import { v5 as uuidv5 } from "uuid";
import { z } from "zod";
import type { Address, Outgoing, Rendered } from "../../core/channel.js";
import type { ConversationId } from "../../core/ids.js";
import type { ChannelAdapter } from "../channel.js";

const ORIGIN = "an origin as browsers send it: https://example.com, or http://localhost:8080";

const isOrigin = (text: string): boolean =>
  /^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text;

const address = z.object({ contact: z.string().min(1).max(200) }) as unknown as z.ZodType<Address>;
const credentials = z.object({
  /** What the tenant's own server signs who somebody is with. */
  identity_secret: z.string().min(32, "at least 32 characters").optional(),
  /** Sessions are signed with keys made from it. */
  webhook_secret: z.string().min(16, "at least 16 characters"),
}) as unknown as z.ZodType<Readonly<Record<string, string>>>;
const settings = z.looseObject({
  allowed_origins: z.array(z.string().refine(isOrigin, ORIGIN)).min(1).max(100),
  /** False: only whom the tenant's server has named. */
  anonymous: z.boolean().optional(),
});

export const web: ChannelAdapter = {
  kind: "web",
  credentials,
  settings,
  address,
  // Sent again it is the same item.
  defaults: { onUnknown: "resend", timeoutMs: 5_000, perSecond: null },
  addressKey: ({ contact }) => String(contact),
  personAt: ({ contact }) => String(contact),
  conversationId: ({ channelAccountId, addressKey }) => uuidv5(addressKey, channelAccountId) as ConversationId,
  spacingMs: () => 0,
  render: ({ text, buttons = [] }: Outgoing): Rendered[] => [{ kind: "item", payload: { text, buttons } }],
  // Its row is the message: it is in the inbox with the status that this makes.
  send: (_, { deliveryId }) => Promise.resolve({ kind: "sent", messageId: deliveryId }),
};
