// The channels that tests may talk over.
export { type Mail, type SmtpStandIn, type SmtpTrouble, startSmtp } from "./channels/smtp.js";
export { type SlackMessage, type SlackStandIn, type SlackTrouble, startSlack } from "./channels/slack.js";
export type { Connection, Fault, FaultOf, StandIn, StandInRequest } from "./channels/stand-in.js";
export {
  startTelegram,
  type TelegramMessage,
  type TelegramStandIn,
  type TelegramTrouble,
} from "./channels/telegram.js";
export {
  type ReceivedWebhook,
  startWebhookReceiver,
  type WebhookStandIn,
  type WebhookTrouble,
} from "./channels/webhook.js";
export {
  startWhatsApp,
  type WhatsAppMessage,
  type WhatsAppStandIn,
  type WhatsAppTrouble,
} from "./channels/whatsapp.js";
