// Opens the development chat for an API that is served, and the database's clock that it shows.
import { v7 as uuidv7 } from "uuid";
import { parseDuration } from "../../core/duration.js";
import type { Db, Log } from "../../core/deps.js";
import { DEFAULT_TENANT } from "../../core/ids.js";
import { openDb } from "../../db/pool.js";
import { createApiKey } from "../../engine/commands/create-api-key.js";
import { moveClock, readClock } from "../clock.js";
import { apiAt } from "./accounts.js";
import { openChat } from "./chat.js";
import { type ChatServer, serveChat } from "./server.js";

const DAY_MS = 86_400_000;

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
    const key = (await letsAnybodyIn(apiUrl)) ? null : await keyOf(db);
    const chat = await openChat(apiAt(apiUrl, key), { now: () => readClock(db), advance: movable ? advance : null });
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

async function letsAnybodyIn(apiUrl: string): Promise<boolean> {
  const { status } = await fetch(new URL("/v1/channel-accounts", apiUrl));
  return status !== 401;
}

/** For a project with an `auth.path`: the page belongs to whoever has the database. */
async function keyOf(db: Db): Promise<string> {
  const ids = { next: <T extends string>() => uuidv7() as T };
  const asked = { tenantId: DEFAULT_TENANT, name: "perdure dev chat", scopes: ["*"], expiresInMs: DAY_MS };
  return (await createApiKey({ db, ids }, asked)).key;
}
