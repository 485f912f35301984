// NOTIFY and LISTEN, one channel, ids only. They only make things faster: whoever listens polls as well, so every
// failure here costs time and nothing else.
import { randomUUID } from "node:crypto";
import pg from "pg";
import type { Clock } from "../core/clock.js";
import type { Db, Log, Notifier, Topic } from "../core/deps.js";
import { backoffMs } from "../core/retry.js";
import { createListeners } from "./listeners.js";
import { clientConfig, probe, refusesOptions, type SessionOptions } from "./session.js";

const CHANNEL = "perdure";
const COALESCE_MS = 8;
const FIRST_PING_MS = 2_000;
const PING_MS = 20_000;
const PING_TIMEOUT_MS = 5_000;
/** Postgres takes less than 8000 bytes in a payload. */
const PAYLOAD_BYTES = 7_900;
const LISTENER = "perdure listen";
/** What a process says when it begins to listen: from then on the others send. */
const HELLO = "hello";

export type NotifierOptions = Readonly<{
  db: Db;
  /** A direct connection; null when there is none, and then only this process hears its notifications. */
  listenUrl: string | null;
  log: Log;
  clock: Clock;
  random: () => number;
}>;

/** A notifier that starts to LISTEN with its first listener. */
export function createNotifier(options: NotifierOptions): Notifier & { close(): Promise<void> } {
  const listeners = createListeners((error) =>
    options.log.error({ type: (error as Error).name }, "a listener threw on a notification"),
  );
  // Told at once here; our own notifications are known by it when Postgres brings them back.
  const origin = randomUUID();
  const stop = new AbortController();
  const tell = (entries: readonly string[]): void => {
    for (const entry of entries) {
      const [topic, id] = entry.split(":");
      listeners.tell(topic as Topic, id);
    }
  };
  // A notification costs a commit, so none is sent while nobody else listens.
  const others = { listen: true };
  const sender = createSender(options, origin, others);
  const tellHere = oncePerTurn(tell);
  let listening: Promise<void> | undefined;

  return {
    notify(topic, id) {
      const entry = id === undefined ? topic : `${topic}:${id}`;
      tellHere.add(entry);
      sender.add(entry);
    },
    listen(topic, onNotify, id) {
      const leave = listeners.add(topic, onNotify, id);
      listening ??= keepListening(options, stop.signal, {
        hello: `${origin} ${HELLO}`,
        heard: (payload) => {
          const [from, ...entries] = payload.split(" ");
          if (from === origin) return;
          if (entries[0] === HELLO) others.listen = true;
          else tell(entries);
        },
        mayHaveMissed: () => tell(listeners.topics()),
        counted: (listening) => void (others.listen = listening > 1),
      });
      return leave;
    },
    async close() {
      stop.abort();
      tellHere.flush();
      await Promise.all([listening, sender.flushed()]);
    },
  };
}

/** Hands over what was added in one turn of the event loop together, each entry once. */
function oncePerTurn(tell: (entries: readonly string[]) => void) {
  const pending = new Set<string>();
  const flush = (): void => {
    const entries = [...pending];
    pending.clear();
    tell(entries);
  };
  return {
    add(entry: string): void {
      if (pending.size === 0) setImmediate(flush);
      pending.add(entry);
    },
    flush,
  };
}

/**
 * Sends entries to other processes: the first at once, those that come within some milliseconds or while a send is on its way
 * together.
 */
function createSender({ db, log, clock }: NotifierOptions, origin: string, others: Readonly<{ listen: boolean }>) {
  const pending = new Set<string>();
  let sending: Promise<void> | undefined;

  async function send(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (pending.size > 0) {
      const entries = [...pending];
      pending.clear();
      try {
        await db.query(`select pg_notify('${CHANNEL}', payload) from unnest($1::text[]) as payload`, [
          payloads(origin, entries),
        ]);
      } catch (error) {
        log.debug(
          { code: (error as { code?: string }).code },
          "a notification was not sent; pollers will find the work",
        );
      }
      await clock.sleep(COALESCE_MS);
    }
    sending = undefined;
  }
  return {
    add(entry: string): void {
      if (!others.listen) return;
      pending.add(entry);
      sending ??= send();
    },
    flushed: () => sending ?? Promise.resolve(),
  };
}

function payloads(origin: string, entries: readonly string[]): string[] {
  const result: string[] = [];
  let payload = origin;
  for (const entry of entries) {
    if (payload.length + 1 + entry.length > PAYLOAD_BYTES) {
      result.push(payload);
      payload = origin;
    }
    payload += ` ${entry}`;
  }
  return [...result, payload];
}

type Ears = Readonly<{
  /** To be sent when it listens. */
  hello: string;
  heard(payload: string): void;
  mayHaveMissed(): void;
  /** How many listen, this process included. */
  counted(listening: number): void;
}>;

/** Keeps one connection listening until the signal aborts, or until it finds that it can't work here. */
async function keepListening(options: NotifierOptions, signal: AbortSignal, ears: Ears): Promise<void> {
  const { listenUrl, log, clock, random } = options;
  if (listenUrl === null) return;
  const session = { url: listenUrl, applicationName: LISTENER, statementTimeoutMs: PING_TIMEOUT_MS };
  for (let failures = 1; !signal.aborted; failures++) {
    try {
      await listenOnce(session, clock, signal, {
        ...ears,
        mayHaveMissed() {
          failures = 0;
          ears.mayHaveMissed();
        },
      });
      if (signal.aborted) return;
    } catch (error) {
      if (error instanceof BehindPooler || refusesOptions(error)) {
        log.warn(
          {},
          "LISTEN does not work through a transaction pooler: set PERDURE_LISTEN_URL to a direct connection",
        );
        return;
      }
      const fields = { code: (error as { code?: string }).code, failures };
      if (failures <= 1) log.warn(fields, "the listening connection failed; loops poll until it is back");
      else log.debug(fields, "the listening connection failed again");
    }
    await clock.sleep(backoffMs(Math.max(1, failures), random()), signal);
  }
}

class BehindPooler extends Error {}

/** Returns when the connection has ended. A ping finds out about one that the network swallowed. */
async function listenOnce(session: SessionOptions, clock: Clock, signal: AbortSignal, ears: Ears): Promise<void> {
  const client = new pg.Client(clientConfig(session, { withSettings: true }));
  const ended = new AbortController();
  const end = (): void => ended.abort();
  client.on("error", end);
  client.on("end", end);
  client.on("notification", ({ payload }) => ears.heard(payload ?? ""));
  signal.addEventListener("abort", end, { once: true });
  try {
    await client.connect();
    if ((await probe(client)) === "transaction") throw new BehindPooler();
    await client.query(`listen ${CHANNEL}`);
    await client.query(`select pg_notify('${CHANNEL}', $1)`, [ears.hello]);
    ears.mayHaveMissed();
    for (let pauseMs = FIRST_PING_MS; !ended.signal.aborted; pauseMs = PING_MS) {
      await clock.sleep(pauseMs, ended.signal);
      if (!ended.signal.aborted) ears.counted(await countListeners(client));
    }
  } finally {
    signal.removeEventListener("abort", end);
    await client.end().catch(() => undefined);
  }
}

async function countListeners(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ n: number }>(
    "select count(*)::int as n from pg_stat_activity where application_name = $1 and datname = current_database()",
    [LISTENER],
  );
  return rows[0]?.n ?? 0;
}
