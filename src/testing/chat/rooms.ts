// The channels of the development chat: one stand-in each, with what its person wrote and what arrived there, in that order.
import { type SlackStandIn, startSlack } from "../channels/slack.js";
import { type SmtpStandIn, startSmtp } from "../channels/smtp.js";
import type { StandIn } from "../channels/stand-in.js";
import { startTelegram, type TelegramStandIn } from "../channels/telegram.js";
import { startWhatsApp, type WhatsAppStandIn } from "../channels/whatsapp.js";

type Arrived = Readonly<{ text: string; buttons: readonly string[]; id: string | null }>;

/** How a stand-in is talked to. */
export type Room = Readonly<{
  kind: string;
  title: string;
  /** Who sits there. */
  person: string;
  standIn: StandIn;
  settings: Readonly<Record<string, unknown>>;
  arrived(): readonly Arrived[];
  /** Null: the channel only sends, so that its answers have to be asked for elsewhere. */
  says: ((text: string) => Promise<unknown>) | null;
  presses: ((label: string) => Promise<unknown>) | null;
}>;

export type Bubble = Arrived & Readonly<{ from: "person" | "agent" }>;

/** Opens all of them, each on a port of its own. */
export async function openRooms(): Promise<readonly Room[]> {
  const [telegram, whatsapp, slack, mail] = await Promise.all([
    startTelegram(),
    startWhatsApp(),
    startSlack(),
    startSmtp(),
  ]);
  return [telegramRoom(telegram), whatsappRoom(whatsapp), slackRoom(slack), mailRoom(mail)];
}

const telegramRoom = (telegram: TelegramStandIn): Room => ({
  ...{ kind: "telegram", title: "Telegram", person: "Ada, in chat 1", standIn: telegram, settings: {} },
  arrived: () =>
    telegram.messages(1).map(({ text, buttons, chatId, messageId }) => ({
      ...{ text, buttons: buttons.map((button) => button.text), id: `${chatId}/${messageId}` },
    })),
  says: (text) => telegram.says(text, { chatId: 1 }),
  presses: (label) => telegram.presses(label, { chatId: 1 }),
});

const PHONE = "15550001";
const whatsappRoom = (whatsapp: WhatsAppStandIn): Room => ({
  ...{ kind: "whatsapp", title: "WhatsApp", person: `Ada, +${PHONE}`, standIn: whatsapp },
  settings: { template: { name: "There is an answer for you", language: "en" } },
  arrived: () =>
    whatsapp.messages(PHONE).map(({ text, buttons, id }) => ({ text, buttons: buttons.map(({ title }) => title), id })),
  says: (text) => whatsapp.says(text, PHONE),
  presses: (title) => whatsapp.presses(title, PHONE),
});

const slackRoom = (slack: SlackStandIn): Room => ({
  ...{ kind: "slack", title: "Slack", person: "ada, in #c1", standIn: slack, settings: {} },
  arrived: () =>
    slack.messages("C1").map(({ text, buttons, channel, ts }) => ({
      ...{ text, buttons: buttons.map(({ label }) => label), id: `${channel}/${ts}` },
    })),
  says: (text) => slack.says(text, { channel: "C1" }),
  presses: (label) => slack.presses(label, { channel: "C1" }),
});

const mailRoom = (mail: SmtpStandIn): Room => ({
  ...{ kind: "email", title: "Mail", person: "ada@example.com, who can only read", standIn: mail, settings: {} },
  arrived: () =>
    mail.mails().map(({ headers, text }) => ({
      ...{ text: `${headers["subject"] ?? ""}\n\n${text}`, buttons: [], id: headers["message-id"] ?? null },
    })),
  says: null,
  presses: null,
});

/** What was said in a room, by both sides. */
export class Transcript {
  /** What the person wrote, or that something arrived. */
  private readonly lines: (string | null)[] = [];
  private seen = 0;

  constructor(private readonly room: Room) {}

  /** Before what arrives later. */
  note(text: string): void {
    this.lookAgain();
    this.lines.push(text);
  }

  bubbles(): readonly Bubble[] {
    this.lookAgain();
    const arrived = this.room.arrived();
    let next = 0;
    return this.lines.flatMap((said): Bubble[] => {
      if (said !== null) return [{ from: "person", text: said, buttons: [], id: null }];
      const message = arrived[next];
      next += 1;
      return message === undefined ? [] : [{ from: "agent", ...message }];
    });
  }

  private lookAgain(): void {
    for (const { length } = this.room.arrived(); this.seen < length; this.seen += 1) this.lines.push(null);
  }
}
