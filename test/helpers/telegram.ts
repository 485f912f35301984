// An engine that is reached over Telegram: its API on a port, a deliverer, an account, and the stand-in that plays the channel.
import { listenApi } from "../../src/compose-api.js";
import { composeLoops, type Running } from "../../src/compose-loops.js";
import { startTelegram, type TelegramStandIn } from "../../src/testing/channels/telegram.js";
import { type EngineOptions, type TestEngine, withEngine } from "./engine.js";
import { until } from "./wait.js";

export type Reached = TestEngine &
  Readonly<{
    telegram: TelegramStandIn;
    accountId: string;
    /** Of the API on its port. */
    url: string;
    ask(method: string, path: string, body?: unknown): Promise<{ status: number; json: unknown }>;
    /** Waits until the chat has so many messages; its texts. */
    texts(count: number, chatId?: number): Promise<string[]>;
    startDeliverer(): Running;
  }>;

export type ReachedOptions = EngineOptions &
  Readonly<{ settings?: Readonly<Record<string, unknown>>; deliverers?: number; assistant?: string }>;

export async function withTelegram<T>(options: ReachedOptions, work: (reached: Reached) => Promise<T>): Promise<T> {
  const telegram = await startTelegram();
  try {
    return await withEngine(options, async (engine) => {
      const running: Running[] = [];
      const api = await listenApi(engine.engine, { host: "127.0.0.1", port: 0 });
      const startDeliverer = (): Running => {
        const loops = composeLoops(engine.engine, ["deliverer", "receiver"], { concurrency: 1 });
        for (const loop of loops) loop.start();
        const both = { start() {}, stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) };
        running.push(both);
        return both;
      };
      const ask: Reached["ask"] = async (method, path, body) => {
        const response = await fetch(`${api.url}${path}`, {
          method,
          headers: { "content-type": "application/json", accept: "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        const text = await response.text();
        return {
          status: response.status,
          json: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text,
        };
      };
      try {
        for (let n = 0; n < (options.deliverers ?? 1); n += 1) startDeliverer();
        const account = {
          kind: "telegram",
          name: "bot",
          credentials: { token: telegram.token },
          settings: { api_root: telegram.url, assistant_id: options.assistant ?? "agent", ...options.settings },
        };
        const made = await ask("POST", "/v1/channel-accounts", account);
        if (made.status !== 201) throw new Error(JSON.stringify(made.json));
        const { channel_account_id: accountId } = made.json as { channel_account_id: string };
        const texts: Reached["texts"] = async (count, chatId) => {
          const arrived = () => telegram.messages(chatId).map(({ text }) => text);
          await until(`${count} messages`, () => arrived().length >= count, { timeoutMs: 20_000 });
          return arrived();
        };
        return await work({ ...engine, telegram, accountId, url: api.url, ask, texts, startDeliverer });
      } finally {
        for (const loop of running) await loop.stop();
        await api.close();
      }
    });
  } finally {
    await telegram.close();
  }
}
