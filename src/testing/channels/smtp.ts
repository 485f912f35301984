// A stand-in for a mail server: mailboxes that hold what they were sent, and the ways in which SMTP goes wrong.
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import type { StandIn } from "./stand-in.js";

export type Mail = Readonly<{ from: string; to: string; headers: Readonly<Record<string, string>>; text: string }>;

/** `cut_after`: the mail is taken, and the connection cut before that is said; a number: that reply, at the command. */
export type SmtpFault = Readonly<{
  at: "RCPT" | "DATA" | "END";
  reply: number | "cut_after" | "cut_before" | "hang";
  times?: number;
}>;

const TROUBLES = {
  later: { at: "END", reply: 451 },
  mailbox_gone: { at: "RCPT", reply: 550 },
  refused: { at: "DATA", reply: 554 },
  cut_before: { at: "DATA", reply: "cut_before" },
  cut_after: { at: "END", reply: "cut_after" },
  hang: { at: "END", reply: "hang" },
} as const satisfies Readonly<Record<string, SmtpFault>>;
export type SmtpTrouble = keyof typeof TROUBLES;

/** `url` is for an account's `smtp_url`. */
export type SmtpStandIn = StandIn<SmtpTrouble> &
  Readonly<{
    /** What arrived at an address, in order; everywhere without one. */
    mails(to?: string): readonly Mail[];
    /** For what has no name; for ever, where it isn't said how often. */
    breaks(fault: SmtpFault): void;
  }>;

/** Starts one on loopback. */
export async function startSmtp(): Promise<SmtpStandIn> {
  const mails: Mail[] = [];
  const sockets = new Set<Socket>();
  let faults: { fault: SmtpFault; left: number }[] = [];
  const faultAt = (at: SmtpFault["at"]): SmtpFault["reply"] | null => {
    const found = faults.find(({ fault, left }) => fault.at === at && left > 0);
    if (found === undefined) return null;
    found.left -= 1;
    return found.fault.reply;
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    serve(socket, { faultAt, take: (mail) => void mails.push(mail) });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = `smtp://127.0.0.1:${port}`;
  const breaks = (fault: SmtpFault): void => void faults.push({ fault, left: fault.times ?? Number.POSITIVE_INFINITY });
  return {
    ...{ kind: "email", url, breaks, troubles: Object.keys(TROUBLES) as SmtpTrouble[] },
    fails: (trouble, times = 1) => breaks({ ...TROUBLES[trouble], times }),
    account: (assistantId, settings = {}) => ({
      ...{ kind: "email", name: "mail stand-in", credentials: { smtp_url: url } },
      settings: { assistant_id: assistantId, from: "Agent <agent@example.com>", ...settings },
    }),
    connect: () => Promise.resolve(),
    mails: (to) => mails.filter((mail) => to === undefined || mail.to === to),
    mends: () => void (faults = []),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

type Box = Readonly<{ faultAt(at: SmtpFault["at"]): SmtpFault["reply"] | null; take(mail: Mail): void }>;

function serve(socket: Socket, { faultAt, take }: Box): void {
  let [from, to, buffered] = ["", "", ""];
  let isData = false;
  const say = (line: string): void => void socket.write(`${line}\r\n`);
  /** True when the fault was all there is to it. */
  const fails = (at: SmtpFault["at"], keep: () => void): boolean => {
    const reply = faultAt(at);
    if (reply === null) return false;
    if (reply === "cut_after" || reply === "hang") keep();
    if (typeof reply === "number") say(`${reply} as you wished`);
    else if (reply !== "hang") socket.destroy();
    return true;
  };
  const end = (text: string): void => {
    const keep = (): void => take(mailOf(from, to, text));
    if (fails("END", keep)) return;
    keep();
    say("250 taken");
  };
  const command = (line: string): void => {
    const verb = line.slice(0, 4).toUpperCase();
    const inside = /<([^>]*)>/.exec(line)?.[1] ?? "";
    if (verb === "MAIL") from = inside;
    if (verb === "RCPT") to = inside;
    if ((verb === "RCPT" || verb === "DATA") && fails(verb, () => undefined)) return;
    if (verb === "DATA") {
      isData = true;
      return say("354 go on");
    }
    say(verb === "QUIT" ? "221 bye" : "250 ok");
    if (verb === "QUIT") socket.end();
  };
  say("220 stand-in");
  socket.on("data", (chunk) => {
    buffered += chunk.toString("utf8");
    for (;;) {
      const mark = isData ? "\r\n.\r\n" : "\r\n";
      const at = buffered.indexOf(mark);
      if (at === -1) return;
      const taken = buffered.slice(0, at);
      buffered = buffered.slice(at + mark.length);
      if (!isData) command(taken);
      else {
        isData = false;
        end(taken);
      }
    }
  });
}

function mailOf(from: string, to: string, raw: string): Mail {
  const [head = "", ...rest] = raw.split("\r\n\r\n");
  const lines = head.replaceAll(/\r\n[ \t]+/g, " ").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const body = rest.join("\r\n\r\n");
  const isBase64 = headers["content-transfer-encoding"] === "base64";
  const text = isBase64 ? Buffer.from(body, "base64").toString("utf8") : unquoted(body);
  return { from, to, headers, text: text.replaceAll("\r\n", "\n").trimEnd() };
}

/** https://www.rfc-editor.org/rfc/rfc2045#section-6.7 */
function unquoted(text: string): string {
  const bytes = text
    .replaceAll(/=\r\n/g, "")
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}
