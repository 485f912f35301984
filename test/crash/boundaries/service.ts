// Whom the payments go to: counts them, honours keys, and can have the caller killed before one or after it, unanswered.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Moments of a call, for killing the caller at. */
export type CallMoment = "asked" | "done";

export type Payments = Readonly<{
  url: string;
  /** How often an intent was paid: once for each key. */
  done(intent: string): number;
  /** Requests for it, whatever became of them. */
  asked(intent: string): number;
  /** The next request for the intent kills its caller, and gets no answer. */
  killAt(intent: string, moment: CallMoment, pid: number): void;
  close(): Promise<void>;
}>;

export async function startPayments(): Promise<Payments> {
  const keys = new Map<string, Set<string>>();
  const asked = new Map<string, number>();
  const kills = new Map<string, { moment: CallMoment; pid: number }>();
  const done = (intent: string): number => keys.get(intent)?.size ?? 0;
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://service");
    const intent = searchParams.get("intent") ?? "";
    request.resume();
    if (pathname === "/paid") return void response.end(JSON.stringify({ done: done(intent) > 0 }));
    asked.set(intent, (asked.get(intent) ?? 0) + 1);
    const kill = kills.get(intent);
    kills.delete(intent);
    if (kill?.moment !== "asked") keys.set(intent, (keys.get(intent) ?? new Set()).add(searchParams.get("key") ?? ""));
    if (kill === undefined) return void response.end("{}");
    process.kill(kill.pid, "SIGKILL");
    request.socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    done,
    asked: (intent) => asked.get(intent) ?? 0,
    killAt: (intent, moment, pid) => void kills.set(intent, { moment, pid }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
