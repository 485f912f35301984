// `perdure/channels`: what authors of channels write against. docs/own-channels.md has an example.
export type {
  Address,
  Button,
  InboundEvent,
  OnUnknown,
  Outgoing,
  Person,
  Rendered,
  SendResult,
} from "./core/channel.js";
export {
  type Account,
  type ChannelAdapter,
  DOORBELL,
  type SendContext,
  type WebhookAnswer,
  type WebhookRequest,
} from "./delivery/channel.js";
export { asRecord, type ProviderAnswer, request, retryAfterMs, unanswered } from "./delivery/channels/request.js";
export { hmacSha256, isSame } from "./delivery/channels/signature.js";
export { splitText } from "./delivery/channels/split.js";
