// Pings of one WebSocket: whether the client is still there, and whether all has come that it had sent before something.
import type { WebSocket } from "ws";

const PING_MS = 20_000;

export type Pings = Readonly<{
  /** Resolves when the client has answered a ping that is sent now, or is gone: what it sent before the answer has come by then. */
  roundTrip(): Promise<void>;
}>;

/** A connection that the network swallowed answers no ping, and is cut. */
export function startPings(socket: WebSocket): Pings {
  let sent = 0;
  let answered = 0;
  let waiting: readonly Readonly<{ ping: number; resolve: () => void }>[] = [];
  const ping = (): void => {
    sent += 1;
    socket.ping(String(sent));
  };
  const release = (): void => {
    for (const one of waiting) if (one.ping <= answered) one.resolve();
    waiting = waiting.filter((one) => one.ping > answered);
  };
  let before = 0;
  const timer = setInterval(() => {
    if (answered < before) {
      socket.terminate();
      return;
    }
    ping();
    before = sent;
  }, PING_MS);
  socket.on("pong", (data) => {
    // Several pings may get one answer: to the last of them.
    answered = Math.max(answered, Number(String(data)) || 0);
    release();
  });
  socket.on("close", () => {
    clearInterval(timer);
    answered = Number.POSITIVE_INFINITY;
    release();
  });
  return {
    roundTrip: () =>
      new Promise((resolve) => {
        if (answered === Number.POSITIVE_INFINITY) {
          resolve();
          return;
        }
        ping();
        waiting = [...waiting, { ping: sent, resolve }];
      }),
  };
}
