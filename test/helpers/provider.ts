// A stand-in for a model provider: a real HTTP server that speaks Anthropic's Messages API, counts what it is asked and can be
// out of order. With it the real SDK makes the real errors.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type Trouble = Readonly<{
  status: number;
  /** Of Anthropic's error object. */
  type?: string;
  headers?: Readonly<Record<string, string>>;
}>;

export type Provider = Readonly<{
  url: string;
  /** Answered with a message. */
  answered: () => number;
  asked: () => number;
  /** Tokens it has said it took, in and out. */
  tokens: () => number;
  /** Most requests that were under way at the same time. */
  atOnce: () => number;
  /** From now on; undefined: all is well. */
  break(trouble: Trouble | undefined): void;
  /** Each answer takes so long. */
  slow(ms: number): void;
  close(): Promise<void>;
}>;

const INPUT_TOKENS = 100;
const OUTPUT_TOKENS = 50;

export async function startProvider(): Promise<Provider> {
  let trouble: Trouble | undefined;
  let [asked, answered, open, atOnce, slowMs] = [0, 0, 0, 0, 0];
  const server = createServer((request, response) => {
    asked += 1;
    open += 1;
    atOnce = Math.max(atOnce, open);
    let body = "";
    request.on("data", (chunk) => (body += String(chunk)));
    request.on("end", () => {
      const { model } = JSON.parse(body) as { model: string };
      void sleep(slowMs).then(() => {
        open -= 1;
        if (trouble !== undefined) {
          const error = { type: trouble.type ?? "api_error", message: "not now" };
          response.writeHead(trouble.status, { "content-type": "application/json", ...trouble.headers });
          response.end(JSON.stringify({ type: "error", error }));
          return;
        }
        answered += 1;
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify(message(answered, model)));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    answered: () => answered,
    asked: () => asked,
    tokens: () => answered * (INPUT_TOKENS + OUTPUT_TOKENS),
    atOnce: () => atOnce,
    break: (given) => (trouble = given),
    slow: (ms) => (slowMs = ms),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function message(n: number, model: string) {
  return {
    id: `msg_${n}`,
    type: "message",
    role: "assistant",
    model,
    content: [{ type: "text", text: `answer ${n}` }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: INPUT_TOKENS, output_tokens: OUTPUT_TOKENS },
  };
}
