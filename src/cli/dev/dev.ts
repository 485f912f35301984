// `perdure dev`: everything on one machine in one process tree. Starts it in order, says when it is ready, loads changed
// graphs, and takes it down again, whatever happened, so that nothing is left behind.
import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { Log } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { superviseEmbeddedPostgres } from "../../db/embedded/server.js";
import { readProject } from "../../engine/langgraph-json.js";
import type { Output } from "../output.js";
import { stopSignal } from "../stop-signal.js";
import { refusePublic, refuseTakenPort } from "./address.js";
import { checkGraphs, type GraphCheck, type GraphReport } from "./check-graphs.js";
import { ChildFailed } from "./child.js";
import { holdDataDir, removeDevFile } from "./data-dir.js";
import { followGraphs } from "./follow-graphs.js";
import { Supervisor } from "./supervisor.js";

export type DevOptions = Readonly<{
  dataDir: string;
  configPath: string;
  host: string;
  port: number;
  workers: number;
  /** Given: no embedded Postgres. */
  databaseUrl: string | null;
  /** Given: bodies are not in the data dir. */
  bodies: string | null;
  /** Arguments of `node` for another command of this very program. */
  command(name: string, ...args: readonly string[]): readonly string[];
  environment(values: Readonly<Record<string, string>>): NodeJS.ProcessEnv;
  migrate(databaseUrl: string): Promise<unknown>;
  /** Whether time is to be one that can be moved; a data dir that was begun so stays so. */
  movableClock: boolean;
  /** The url with the database's movable clock, null where it has none; it gets one where that is `wanted`. */
  openClock(databaseUrl: string, wanted: boolean): Promise<string | null>;
  /** Serves the page on which one chats over stand-ins of the channels. */
  openChat(at: Readonly<{ apiUrl: string; databaseUrl: string; movable: boolean }>): Promise<DevChat>;
  out: Output;
  log: Log;
}>;

export type DevChat = Readonly<{ url: string; close(): Promise<void> }>;

/** What takes the latest step back; the last one first. */
type Undo = (() => Promise<void> | void)[];

/** Runs until it is told to stop. */
export async function dev(options: DevOptions): Promise<void> {
  let supervisor: Supervisor | undefined;
  // Before there are processes to end at once, whatever is waited for is left where it is: the next start takes it over.
  const stop = stopSignal(() => (supervisor === undefined ? process.exit(1) : supervisor.kill()));
  const undo: Undo = [() => stop.dispose()];
  const stopped = stop.stopped.then(() => "stopped" as const);
  try {
    const preparing = prepare(options, stop.signal, undo);
    const ground = await Promise.race([preparing, stopped]);
    if (ground === "stopped") {
      // Only when it has ended is it known what to take back.
      await preparing.catch(() => undefined);
      return;
    }
    const { databaseUrl, bodies, dataDir } = ground;
    const env = options.environment({ DATABASE_URL: databaseUrl, PERDURE_BODIES: bodies });
    supervisor = new Supervisor({ ...options, ...ground, env });
    const running = supervisor;
    undo.push(
      () => removeDevFile(dataDir),
      () => running.stop(),
    );
    const apiUrl = await Promise.race([supervisor.start(), stopped]);
    if (apiUrl === "stopped") return;
    const following = followGraphs(
      { ...options, first: ground.report, firstAtMs: ground.checkedAtMs, check: () => check(options, stop.signal) },
      running,
    );
    undo.push(() => following.close());
    const opening = openChat(options, { ...ground, apiUrl });
    undo.push(async () => (await opening)?.close());
    const chat = await Promise.race([opening, stopped]);
    if (chat === "stopped") return;
    options.out.line(banner(options, { ...ground, apiUrl, chatUrl: chat?.url ?? null }));
    await stopped;
    options.out.note("perdure: stopping");
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

type Ground = Readonly<{
  dataDir: string;
  databaseUrl: string;
  movable: boolean;
  bodies: string;
  report: GraphReport;
  checkedAtMs: number;
}>;

/** What the processes stand on: the folder, a migrated database, graphs that load. */
async function prepare(options: DevOptions, signal: AbortSignal, undo: Undo): Promise<Ground> {
  refusePublic(options.host);
  if (options.movableClock && options.databaseUrl !== null) {
    throw new EngineError(
      "config_invalid",
      "--movable-clock moves the clock of dev's own Postgres: unset DATABASE_URL",
    );
  }
  const project = await readProject(options.configPath);
  for (const warning of project.warnings) options.out.note(`perdure: ${project.path}: ${warning}`);
  await refuseTakenPort(options.host, options.port);
  const dataDir = path.resolve(options.dataDir);
  undo.push(await holdDataDir(dataDir));
  await removeDevFile(dataDir);
  const checkedAtMs = Date.now();
  const checking = check(options, signal);
  // A first start makes nothing before it is known that something can run.
  if (!existsSync(postgresDir(dataDir))) graphsOf(await checking);
  // Else both at once, and both to their end: what one of them started must be known before it is taken back.
  const [checked, opened] = await Promise.allSettled([checking, openDatabase(options, dataDir, undo)]);
  if (opened.status === "rejected") throw opened.reason;
  if (checked.status === "rejected") throw checked.reason;
  const report = graphsOf(checked.value);
  signal.throwIfAborted();
  await options.migrate(opened.value);
  const moved = options.databaseUrl === null ? await options.openClock(opened.value, options.movableClock) : null;
  const bodies = options.bodies ?? pathToFileURL(path.join(dataDir, "bodies")).href;
  return { dataDir, databaseUrl: moved ?? opened.value, movable: moved !== null, bodies, report, checkedAtMs };
}

function graphsOf(checked: GraphCheck): GraphReport {
  if (checked.ok) return checked.report;
  throw new ChildFailed(checked.problem, checked.exitCode);
}

const postgresDir = (dataDir: string): string => path.join(dataDir, "postgres");

async function openDatabase(options: DevOptions, dataDir: string, undo: Undo): Promise<string> {
  if (options.databaseUrl !== null) return options.databaseUrl;
  const postgres = await superviseEmbeddedPostgres({ dataDir: postgresDir(dataDir), log: options.log });
  undo.push(() => postgres.stop());
  return postgres.url;
}

function check(options: DevOptions, signal: AbortSignal): Promise<GraphCheck> {
  return checkGraphs(options.command("graphs", "--json"), options.environment({}), signal);
}

/** Null: nobody can chat, which is no reason not to develop. */
async function openChat(
  { openChat: open, out }: DevOptions,
  at: Ground & Readonly<{ apiUrl: string }>,
): Promise<DevChat | null> {
  try {
    return await open(at);
  } catch (error) {
    out.note(`perdure: the chat page could not be opened: ${(error as Error).message}`);
    return null;
  }
}

function banner(options: DevOptions, running: Ground & Readonly<{ apiUrl: string; chatUrl: string | null }>): string {
  const lines = [
    ["API", running.apiUrl],
    ...(running.chatUrl === null ? [] : [["chat", running.chatUrl]]),
    ["graphs", running.report.graphs.map(({ id }) => id).join(", ")],
    ["workers", String(options.workers)],
    ["data", options.databaseUrl === null ? running.dataDir : `${running.dataDir}, database by DATABASE_URL`],
    ["bodies", running.bodies],
  ];
  const text = lines.map(([name = "", value]) => `  ${name.padEnd(9)}${value}`).join("\n");
  return `perdure dev is ready\n${text}\nCtrl-C stops it; graphs are loaded again when their files change.`;
}
