// `perdure doctor`: can this environment work. One line per question, and what to do where the answer is no.
import type { Deps, Notifier } from "../core/deps.js";
import { isEngineError } from "../core/errors.js";
import { measureClockOffset } from "../db/clock-offset.js";
import { inspectServer, type OldSession } from "../db/health.js";
import { checkSchema } from "../db/migrate.js";
import type { Graphs } from "../engine/graphs.js";
import type { Output } from "./output.js";
import { json } from "./wire.js";

export type Check = Readonly<{ name: string; result: "ok" | "warn" | "fail"; says: string }>;

export type Examined = Readonly<{
  deps: Deps;
  /** A notifier of another process, as it were: it tells whether notifications come through Postgres. */
  otherNotifier: Notifier;
  /** Null: there is no project in this folder. */
  loadGraphs: (() => Promise<Graphs>) | null;
  /** Where bodies live is not known: why. */
  noBodies: string | null;
  pollMs: number;
}>;

const OLDEST_VERSION = 140_000;
const CLOCK_WARN_MS = 5_000;
const LISTEN_MS = 5_000;

/** Prints every check; true when none failed. */
export async function doctor(examined: Examined, print: Output & Readonly<{ json: boolean }>): Promise<boolean> {
  const checks: Check[] = [];
  const say = (check: Check) => {
    checks.push(check);
    if (!print.json) print.line(`${check.result.padEnd(4)}  ${check.name.padEnd(9)}  ${check.says}`);
  };
  const database = await checked("database", () => checkServer(examined.deps));
  for (const check of database) say(check);
  // The rest about the database would only repeat that it can't be reached.
  if (database.every(({ result }) => result !== "fail")) {
    for (const check of await checked("schema", () => checkMigrations(examined.deps))) say(check);
    for (const check of await checked("clock", () => checkClock(examined.deps))) say(check);
    for (const check of await checked("listen", () => checkListen(examined))) say(check);
  }
  for (const check of await checked("bodies", () => checkBodies(examined))) say(check);
  for (const check of await checked("graphs", () => checkGraphs(examined))) say(check);
  if (print.json) print.line(json({ ok: checks.every(({ result }) => result !== "fail"), checks }));
  return checks.every(({ result }) => result !== "fail");
}

type Finding = Omit<Check, "name">;

async function checked(name: string, check: () => Promise<readonly Finding[]>): Promise<readonly Check[]> {
  try {
    return (await check()).map((finding) => ({ name, ...finding }));
  } catch (error) {
    const says = error instanceof Error ? error.message.replaceAll("\n", "; ") : String(error);
    return [{ name, result: "fail", says }];
  }
}

async function checkServer({ db }: Deps): Promise<readonly Finding[]> {
  const server = await inspectServer(db);
  if (server.versionNumber < OLDEST_VERSION) {
    return [{ result: "fail", says: `PostgreSQL ${server.version} is too old; perdure needs 14 or newer` }];
  }
  const old = (sessions: readonly OldSession[], what: string, why: string): readonly Finding[] => {
    const [oldest] = sessions;
    if (oldest === undefined) return [];
    const who = `pid ${oldest.pid}${oldest.applicationName === "" ? "" : ` (${oldest.applicationName})`}`;
    return [
      { result: "warn", says: `${sessions.length} ${what}, the oldest ${seconds(oldest.ageMs)} old, ${who}: ${why}` },
    ];
  };
  return [
    { result: "ok", says: `PostgreSQL ${server.version}, ${server.maxConnections} connections` },
    ...old(server.oldSnapshots, "old snapshot(s)", "rows can't be cleaned up behind it, which slows the queue down"),
    ...old(
      server.idleInTransaction,
      "session(s) idle in a transaction",
      "it holds locks and keeps rows from being cleaned up",
    ),
  ];
}

async function checkMigrations({ db }: Deps): Promise<readonly Finding[]> {
  await checkSchema(db);
  return [{ result: "ok", says: "the schema perdure is up to date" }];
}

async function checkClock({ db }: Deps): Promise<readonly Finding[]> {
  const offsetMs = Math.round(await measureClockOffset(db));
  const says = `this machine's clock is ${Math.abs(offsetMs)} ms ${offsetMs > 0 ? "behind" : "ahead of"} the database's`;
  if (Math.abs(offsetMs) < CLOCK_WARN_MS) return [{ result: "ok", says }];
  return [{ result: "warn", says: `${says}; leases don't mind, but logs of several machines won't match: run NTP` }];
}

/** Sends a notification from one connection and waits for it on another. */
async function checkListen({ deps, otherNotifier, pollMs }: Examined): Promise<readonly Finding[]> {
  const probe = deps.ids.next<string>();
  const patience = new AbortController();
  const heard = new Promise<boolean>((resolve) => {
    otherNotifier.listen("runs", (id) => {
      if (id === probe) resolve(true);
      // Without an id it says that it listens from now on.
      else if (id === undefined) deps.notifier.notify("runs", probe);
    });
  });
  const late = deps.clock.sleep(LISTEN_MS, patience.signal).then(() => false);
  const works = await Promise.race([heard, late]);
  patience.abort();
  if (works) return [{ result: "ok", says: "notifications arrive" }];
  const says =
    "notifications don't arrive, as behind a pooler in transaction mode: set PERDURE_LISTEN_URL to a direct connection; " +
    `until then work waits for the next poll (${pollMs} ms)`;
  return [{ result: "warn", says }];
}

async function checkBodies({ deps, noBodies }: Examined): Promise<readonly Finding[]> {
  if (noBodies !== null) return [{ result: "fail", says: noBodies }];
  const notes = await deps.bodies.probe();
  return [
    { result: "ok", says: `${deps.bodies.uri} can be written, read by range and deleted` },
    ...notes.map((says) => ({ result: "ok" as const, says })),
  ];
}

async function checkGraphs({ loadGraphs }: Examined): Promise<readonly Finding[]> {
  if (loadGraphs === null) return [{ result: "warn", says: "there is no langgraph.json here; give it with --config" }];
  try {
    const graphs = await loadGraphs();
    return [{ result: "ok", says: graphs.ids.join(", ") }];
  } catch (error) {
    if (!isEngineError(error)) throw error;
    return error.message.split("\n").map((says) => ({ result: "fail" as const, says }));
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
