// An engine that is reached over WhatsApp: its API on a port, a deliverer, an account, and the stand-in that plays Meta.
import { randomUUID } from "node:crypto";
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { listenApi } from "../../src/compose-api.js";
import { composeLoops } from "../../src/compose-loops.js";
import { DEFAULT_TENANT, type DeliveryId } from "../../src/core/ids.js";
import { listConversations } from "../../src/delivery/conversations.js";
import { postDeliveries, postedOf } from "../../src/delivery/outbox.js";
import { startWhatsApp, type WhatsAppStandIn } from "../../src/testing/channels/whatsapp.js";
import { type TestEngine, withEngine } from "./engine.js";

export type OnWhatsApp = TestEngine &
  Readonly<{
    whatsapp: WhatsAppStandIn;
    /** Of the webhook. */
    url: string;
    /** Of all deliveries, in order. */
    statuses(): Promise<string[]>;
    /** The person wrote more than a day ago. */
    closeWindow(): Promise<void>;
    /** Says something in the one conversation that there is. */
    post(texts: readonly string[]): Promise<void>;
  }>;

const echo = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({ messages: [new AIMessage(`you said **${messages.at(-1)?.text}**`)] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

export async function withWhatsApp<T>(settings: object, work: (reached: OnWhatsApp) => Promise<T>): Promise<T> {
  const whatsapp = await startWhatsApp();
  try {
    return await withEngine({ graphs: { agent: echo } }, async (engine) => {
      const { db } = engine.deps;
      const api = await listenApi(engine.engine, { host: "127.0.0.1", port: 0 });
      const [deliverer] = composeLoops(engine.engine, ["deliverer"], { concurrency: 1 });
      deliverer?.start();
      try {
        const response = await fetch(`${api.url}/v1/channel-accounts`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            kind: "whatsapp",
            name: "number",
            credentials: { access_token: whatsapp.accessToken, app_secret: whatsapp.appSecret },
            settings: {
              ...{ api_root: whatsapp.url, phone_number_id: whatsapp.phoneNumberId, assistant_id: "agent" },
              ...{ webhook_secret: "verify-me", ...settings },
            },
          }),
        });
        const { webhook_url: url } = (await response.json()) as { webhook_url: string };
        whatsapp.webhook(url);
        return await work({
          ...engine,
          whatsapp,
          url,
          async statuses() {
            const { rows } = await db.query<{ status: string }>("select status from deliveries order by seq");
            return rows.map(({ status }) => status);
          },
          async closeWindow() {
            await db.query("update conversations set last_inbound_at = last_inbound_at - interval '25 hours'");
            for (const { to } of whatsapp.messages()) whatsapp.window(to, false);
          },
          async post(texts) {
            const filter = { tenantId: DEFAULT_TENANT, threadId: null, limit: 1, offset: 0 };
            const [conversation] = await listConversations(db, filter);
            if (conversation === undefined) throw new Error("there is no conversation");
            const messages = texts.map((text) => ({ kind: "text", payload: { text } }));
            const posted = postedOf(messages, {
              ...{ newId: () => randomUUID() as DeliveryId, source: "notice", sourceId: randomUUID() },
              ...{ ...conversation, runId: null, onUnknown: "reconcile" },
            });
            await db.tx((sql) => postDeliveries(sql, DEFAULT_TENANT, posted));
            engine.deps.notifier.notify("deliveries");
          },
        });
      } finally {
        await deliverer?.stop();
        await api.close();
      }
    });
  } finally {
    await whatsapp.close();
  }
}
