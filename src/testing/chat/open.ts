// Opens the development chat for an API that is served, and the database's clock that it shows.
import { parseDuration } from "../../core/duration.js";
import type { Log } from "../../core/deps.js";
import { openDb } from "../../db/pool.js";
import { moveClock, readClock } from "../clock.js";
import { apiAt } from "./accounts.js";
import { openChat } from "./chat.js";
import { type ChatServer, serveChat } from "./server.js";

export type ChatOptions = Readonly<{
  apiUrl: string;
  databaseUrl: string;
  /** Whether the database's clock is one that moves. */
  movable: boolean;
  log: Log;
}>;

/** Listens on the port after the API's, or on a free one where that is taken. */
export async function openDevChat({ apiUrl, databaseUrl, movable, log }: ChatOptions): Promise<ChatServer> {
  const db = openDb({ url: databaseUrl, max: 1, log, applicationName: "perdure dev chat" });
  const advance = async (by: string): Promise<void> => {
    // Loaded when it is used: much of the engine comes with it.
    const { waitUntilIdle } = await import("../rest.js");
    // What runs now has a lease, which a jump would end.
    await waitUntilIdle(db);
    await moveClock(db, parseDuration(by) ?? 0);
  };
  try {
    const chat = await openChat(apiAt(apiUrl), { now: () => readClock(db), advance: movable ? advance : null });
    const server = await serveChat(chat, Number(new URL(apiUrl).port) + 1);
    return {
      url: server.url,
      async close() {
        await server.close();
        await chat.close();
        await db.close();
      },
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}
