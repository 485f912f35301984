// The channels that come with perdure, by kind.
import type { ChannelAdapter, Channels } from "../channel.js";
import { email } from "./email.js";
import { slack } from "./slack.js";
import { telegram } from "./telegram.js";
import { web } from "./web.js";
import { webhook } from "./webhook.js";
import { whatsapp } from "./whatsapp.js";

const ALL: readonly ChannelAdapter[] = [telegram, whatsapp, slack, email, webhook, web];

export const CHANNELS: Channels = new Map(ALL.map((adapter) => [adapter.kind, adapter]));
