// Who says no to outreach, in words or through their channel.
import type { Deps, Sql } from "../core/deps.js";
import type { ConversationId, SuppressionId, TenantId } from "../core/ids.js";
import { liftOwn, suppressConversation, type SuppressionRow } from "../delivery/suppressions.js";

type No = Pick<SuppressionRow, "scope" | "cause">;
type Where = Readonly<{ tenantId: TenantId; conversationId: ConversationId }>;

/** By what an adapter says of an address. */
const CODES: Readonly<Record<string, No>> = {
  blocked: { scope: "all", cause: "blocked" },
  opted_out: { scope: "marketing", cause: "opted_out" },
};

/** The whole message, without what stands around it. https://www.twilio.com/docs/messaging/guides/advanced-opt-out has most of them. */
const STOP = new Set([
  ...["stop", "stop all", "stopall", "unsubscribe", "opt out", "optout", "revoke"],
  ...["arret", "arrêt", "désabonner", "stopp", "abmelden", "abbestellen", "basta", "cancella", "annulla"],
  ...["parar", "baja", "cancelar", "sair", "afmelden", "uitschrijven"],
]);
const START = new Set(["start", "unstop", "subscribe", "/start"]);

/** In the transaction that takes the message, which is answered all the same. */
export async function heedWords({ ids }: Pick<Deps, "ids">, sql: Sql, at: Where, text: string): Promise<void> {
  const word = text
    .trim()
    .toLowerCase()
    .replaceAll(/^[^\p{L}/]+|[^\p{L}]+$/gu, "")
    .replaceAll(/\s+/g, " ");
  if (START.has(word)) return liftOwn(sql, at);
  if (!STOP.has(word)) return;
  await suppressConversation(sql, { ...at, suppressionId: ids.next<SuppressionId>(), scope: "all", cause: "stop" });
}

export async function heedCode({ ids }: Pick<Deps, "ids">, sql: Sql, at: Where, code: string | null): Promise<void> {
  const no = code === null || !Object.hasOwn(CODES, code) ? undefined : CODES[code];
  if (no !== undefined) await suppressConversation(sql, { ...at, suppressionId: ids.next<SuppressionId>(), ...no });
}
