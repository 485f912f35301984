#!/usr/bin/env node
// The binary: the command line and the environment in, the parts composed, and over to one command.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import type { ChildMessage } from "./cli/dev/child.js";
import { readDevFile } from "./cli/dev/data-dir.js";
import { choiceArgument } from "./cli/arguments.js";
import { errorText, exitCodeOf, type Output, terminal } from "./cli/output.js";
import { EXECUTE_CLAIM, type Handlers, type Place, runProgram } from "./cli/program.js";
import { addToEnvironment, type Config, environmentWith, readConfigWith } from "./config.js";
import type { ComposedEngine, LoopName, Parts } from "./compose.js";
import type { Log } from "./core/deps.js";
import { EngineError } from "./core/errors.js";
import { DEFAULT_TENANT } from "./core/ids.js";
import type { Source } from "./engine/adopt/source.js";
import type { Graphs } from "./engine/graphs.js";
import { type GraphSource, type Project, readProject } from "./engine/langgraph-json.js";
import { readVersions } from "./engine/versions.js";
import { createLog } from "./observe/log.js";

const BINARY = fileURLToPath(import.meta.url);
const NO_BODIES = "PERDURE_BODIES is not set: say where message bodies live, s3://bucket/prefix or file:///path";
let debugging = false;

/** The project's file, and the settings of the environment and the project. */
async function readSettings({ configPath }: Place, needs: "project" | "anything") {
  const file = configPath ?? "langgraph.json";
  const project = needs === "project" || configPath !== null || existsSync(file) ? await readProject(file) : null;
  const config = readConfigWith(project?.env ?? {});
  debugging = config.logLevel === "debug";
  return { project, config };
}

/** Graph files run user code; what loads them is loaded when it is needed. */
async function loadGraphs(project: Project): Promise<Graphs> {
  addToEnvironment(project.env);
  const { loadGraphs: load } = await import("./engine/graphs.js");
  let loading: GraphSource | undefined;
  const onExit = (code: number): void => {
    if (loading !== undefined) terminal.note(endedOnImport(loading, code));
    process.exitCode = 2;
  };
  process.once("exit", onExit);
  try {
    return await load(project.graphs, { onLoad: (source) => (loading = source) });
  } finally {
    process.off("exit", onExit);
  }
}

function endedOnImport({ id, file }: GraphSource, code: number): string {
  const why = "it calls process.exit, awaits what never comes, or leaves an error to nobody";
  return `perdure: graph "${id}" (${file}) ended the process on import (exit code ${code}): ${why}`;
}

function databaseOf(config: Config, command: string): string {
  if (config.databaseUrl !== null) return config.databaseUrl;
  throw new EngineError(
    "config_invalid",
    `DATABASE_URL is not set: \`perdure ${command}\` needs a Postgres (14 or newer); only \`perdure dev\` brings its own`,
  );
}

function bodiesOf(config: Config): string {
  if (config.bodies !== null) return config.bodies;
  throw new EngineError("config_invalid", NO_BODIES);
}

/** The installation that DATABASE_URL names, or else the development server in the data dir. */
async function findInstallation(
  config: Config,
  dataDir: string,
): Promise<{ databaseUrl: string; bodies: string | null }> {
  const running = await readDevFile(dataDir);
  const databaseUrl = config.databaseUrl ?? running?.database_url;
  if (databaseUrl !== undefined) {
    const known = running?.database_url === databaseUrl ? running.bodies : null;
    return { databaseUrl, bodies: config.bodies ?? known };
  }
  throw new EngineError(
    "config_invalid",
    `DATABASE_URL is not set and no development server runs in ${dataDir}: start \`perdure dev\`, or set DATABASE_URL`,
  );
}

/** Commands for people say what they have to say themselves: of their parts they log what goes wrong. */
function quietLog(config: Config): Log {
  return createLog(quietLevel(config), { process: `cli/${process.pid}` });
}

function quietLevel({ logLevel }: Config): Config["logLevel"] {
  return logLevel === "info" ? "warn" : logLevel;
}

/** For commands that look or answer: the parts without listening, closed afterwards. */
async function withParts(
  place: Place,
  work: (parts: Parts, settings: Readonly<{ project: Project | null; config: Config }>) => Promise<void>,
  needs: Readonly<{ bodies: boolean; project: boolean; schema?: boolean; adopts?: boolean }>,
): Promise<void> {
  const settings = await readSettings(place, needs.project ? "project" : "anything");
  const { config, project } = settings;
  if (project !== null) addToEnvironment(project.env);
  const { databaseUrl, bodies } = await findInstallation(config, place.dataDir);
  const { openParts } = await import("./compose.js");
  const parts = openParts({
    databaseUrl,
    listenUrl: config.listenUrl,
    bodies: needs.bodies ? (bodies ?? bodiesOf(config)) : "memory:",
    s3ForcePathStyle: config.s3ForcePathStyle,
    s3Checksums: config.s3Checksums,
    secretKey: config.secretKey,
    oldSecretKeys: config.oldSecretKeys,
    dbPool: 4,
    adoptFrom: needs.adopts === true ? config.adoptFrom : null,
    log: quietLog(config),
    applicationName: "perdure cli",
  });
  try {
    if (needs.schema ?? true) await (await import("./db/migrate.js")).checkSchema(parts.deps.db);
    await work(parts, settings);
  } finally {
    await parts.close();
  }
}

/** The same, with the graphs. */
function withEngine(
  place: Place,
  work: (engine: ComposedEngine) => Promise<void>,
  { adopts = true }: Readonly<{ adopts?: boolean }> = {},
): Promise<void> {
  return withParts(
    place,
    async (parts, { project, config }) => {
      const { composeEngine } = await import("./compose.js");
      const { databaseUrl } = await findInstallation(config, place.dataDir);
      const found = project as Project;
      const { approvals, policyOf } = found.settings;
      const settings = { ...config, databaseUrl, retention: null, approvals, policyOf };
      await work(composeEngine(parts, await loadGraphs(found), settings));
    },
    { bodies: true, project: true, adopts },
  );
}

/** The same, with the database that threads are adopted from. */
async function withSource(
  place: Place,
  given: string | null,
  work: (engine: ComposedEngine, source: Source) => Promise<void>,
): Promise<void> {
  const { config } = await readSettings(place, "project");
  const from = given ?? config.adoptFrom;
  if (from === null) {
    throw new EngineError("config_invalid", "--from: say where the threads are, a schema or postgres://…#schema");
  }
  const { databaseUrl } = await findInstallation(config, place.dataDir);
  const { openSource } = await import("./engine/adopt/source.js");
  const source = openSource({ from, databaseUrl, max: 4, log: quietLog(config) });
  try {
    await withEngine(place, (engine) => work(engine, source), { adopts: false });
  } finally {
    await source.close();
  }
}

const printer = (place: Place): Output & Readonly<{ json: boolean }> => ({ ...terminal, json: place.json });

const handlers: Handlers = {
  async dev(place, options) {
    const { config } = await readSettings(place, "project");
    const { dev } = await import("./cli/dev/dev.js");
    const { migrateDatabase } = await import("./cli/migrate.js");
    const log = quietLog(config);
    const configPath = place.configPath ?? "langgraph.json";
    await dev({
      dataDir: place.dataDir,
      configPath,
      host: options.host ?? config.host,
      port: options.port ?? config.port,
      workers: options.workers,
      databaseUrl: config.databaseUrl,
      bodies: config.bodies,
      command: (name, ...args) => [BINARY, name, "--config", configPath, ...args],
      environment: (values) => environmentWith({ PERDURE_LOG_LEVEL: quietLevel(config), ...values }),
      migrate: (databaseUrl) => migrateDatabase(databaseUrl, log),
      out: terminal,
      log,
    });
  },

  async serve(place, options) {
    const settings = await readSettings(place, "project");
    await serveProcess(settings.project as Project, settings.config, options);
  },

  async executeClaim(place) {
    const { project, config } = await readSettings(place, "project");
    const { executeClaim } = await import("./compose.js");
    const { watchStrayErrors } = await import("./engine/stray-errors.js");
    const { parts, graphs, databaseUrl } = await openServing(project as Project, config, EXECUTE_CLAIM);
    const unwatch = watchStrayErrors(parts.deps.log);
    try {
      const { approvals, policyOf } = (project as Project).settings;
      await executeClaim(parts, graphs, { ...config, databaseUrl, retention: null, approvals, policyOf });
    } finally {
      await parts.close();
      unwatch();
    }
  },

  async migrate(place) {
    const { config } = await readSettings(place, "anything");
    const { migrateCommand } = await import("./cli/migrate.js");
    await migrateCommand(databaseOf(config, "migrate"), quietLog(config), printer(place));
  },

  async doctor(place) {
    const { config } = await readSettings(place, "anything");
    const { databaseUrl, bodies } = await findInstallation(config, place.dataDir);
    const { doctor } = await import("./cli/doctor.js");
    const { createNotifier } = await import("./db/listen.js");
    let healthy = false;
    await withParts(
      place,
      async ({ deps }, { project }) => {
        const otherNotifier = createNotifier({ ...deps, listenUrl: config.listenUrl ?? databaseUrl });
        const loadAll = project === null ? null : () => loadGraphs(project);
        const examined = { deps, otherNotifier, loadGraphs: loadAll, noBodies: bodies === null ? NO_BODIES : null };
        healthy = await doctor({ ...examined, pollMs: config.pollMs }, printer(place));
        await otherNotifier.close();
      },
      { bodies: bodies !== null, project: false, schema: false },
    );
    return healthy;
  },

  async check(place) {
    const { check } = await import("./cli/check.js");
    let fits = false;
    await withEngine(place, async (engine) => void (fits = await check(engine, printer(place))));
    return fits;
  },

  async graphs(place) {
    const project = (await readSettings(place, "project")).project as Project;
    const { graphsLs } = await import("./cli/graphs.js");
    for (const warning of project.warnings) terminal.note(`perdure: ${project.path}: ${warning}`);
    await graphsLs(await loadGraphs(project), project.settings.policyOf, printer(place));
  },

  async runsLs(place, filter) {
    const { runsLs } = await import("./cli/runs.js");
    await withParts(place, ({ deps }) => runsLs(deps, filter, printer(place)), { bodies: false, project: false });
  },
  async runsShow(place, runId) {
    const { runsShow } = await import("./cli/runs.js");
    await withParts(place, ({ deps }) => runsShow(deps, runId, printer(place)), { bodies: true, project: false });
  },
  async runsLog(place, how, runId) {
    const { runsEvents, runsStory } = await import("./cli/story.js");
    const tell = how === "story" ? runsStory : runsEvents;
    await withParts(place, ({ deps }) => tell(deps, runId, printer(place)), { bodies: false, project: false });
  },
  async limitsLs(place) {
    const { limitsLs } = await import("./cli/limits.js");
    await withParts(place, ({ deps }) => limitsLs(deps, printer(place)), { bodies: false, project: false });
  },
  async limitsSet(place, limit) {
    const { limitsSet } = await import("./cli/limits.js");
    await withParts(place, ({ deps }) => limitsSet(deps, limit, printer(place)), { bodies: false, project: false });
  },
  async runsResolve(place, how, runId, by) {
    const { runsClose, runsRetry } = await import("./cli/runs.js");
    const decided = { tenantId: DEFAULT_TENANT, runId, by: by ?? userInfo().username };
    await withParts(
      place,
      ({ deps }, { config: { moveAfterMs } }) =>
        how === "retry"
          ? runsRetry(deps, decided, printer(place))
          : runsClose(deps, { ...decided, moveAfterMs }, printer(place)),
      { bodies: true, project: false },
    );
  },
  async budgetsLs(place, filter) {
    const { budgetsLs } = await import("./cli/budgets.js");
    await withParts(place, ({ deps }) => budgetsLs(deps, filter, printer(place)), { bodies: false, project: false });
  },
  async budgetsSet(place, budget) {
    const { budgetsSet } = await import("./cli/budgets.js");
    await withParts(place, ({ deps }) => budgetsSet(deps, budget, printer(place)), { bodies: false, project: false });
  },
  async pricesLs(place) {
    const { pricesLs } = await import("./cli/budgets.js");
    await withParts(place, ({ deps }) => pricesLs(deps, printer(place)), { bodies: false, project: false });
  },
  async pricesSet(place, price) {
    const { pricesSet } = await import("./cli/budgets.js");
    await withParts(place, ({ deps }) => pricesSet(deps, price, printer(place)), { bodies: false, project: false });
  },
  async threadsHistory(place, threadId, options) {
    const { threadsHistory } = await import("./cli/threads.js");
    await withEngine(place, (engine) => threadsHistory(engine, threadId, options, printer(place)));
  },
  async threadsState(place, threadId, options) {
    const { threadsState } = await import("./cli/threads.js");
    await withEngine(place, (engine) => threadsState(engine, threadId, options, printer(place)));
  },
  async threadsAdopt(place, from, flags) {
    const { threadsAdopt } = await import("./cli/adopt.js");
    let complete = false;
    await withSource(place, from, async (engine, source) => {
      complete = await threadsAdopt(engine, source, flags, printer(place));
    });
    return complete;
  },
  async prune(place, flags) {
    const { prune } = await import("./cli/prune.js");
    const { newOwner } = await import("./compose.js");
    await withParts(
      place,
      ({ deps }, { project, config }) => {
        const holder = { owner: newOwner(), leaseMs: config.leaseMs };
        return prune(deps, { ...flags, ...holder, configured: project?.settings.retention ?? null }, printer(place));
      },
      { bodies: true, project: false },
    );
  },
  async timersLs(place, filter) {
    const { timersLs } = await import("./cli/timers.js");
    await withParts(place, ({ deps }) => timersLs(deps, filter, printer(place)), { bodies: false, project: false });
  },
  async approvalsLs(place, filter) {
    const { approvalsLs } = await import("./cli/approvals.js");
    await withEngine(place, (engine) => approvalsLs(engine, filter, printer(place)));
  },
  async approvalsAnswer(place, approvalId, answer, by, roles) {
    const { approvalsAnswer } = await import("./cli/approvals.js");
    const decision = { approvalId, answer, decidedBy: by ?? userInfo().username, roles };
    await withEngine(place, (engine) => approvalsAnswer(engine, decision, printer(place)));
  },
};

type ServeOptions = Parameters<Handlers["serve"]>[1];

/** What a process that serves or executes stands on; the graphs first, since without them there is nothing to do. */
async function openServing(project: Project, config: Config, command: string) {
  const databaseUrl = databaseOf(config, command);
  const log = createLog(config.logLevel, { process: `${command}/${process.pid}` });
  const compose = await import("./compose.js");
  const graphs = await loadGraphs(project);
  const parts = compose.openParts({
    ...config,
    databaseUrl,
    bodies: bodiesOf(config),
    storeTtl: project.storeTtl,
    log,
    applicationName: `perdure ${command}`,
  });
  return { compose, parts, graphs, databaseUrl, log };
}

/** A process for one run that killed a worker before: the same program, settings and graphs. */
function startIsolated(project: Project): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, BINARY, EXECUTE_CLAIM, "--config", project.path], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

async function serveProcess(project: Project, config: Config, options: ServeOptions): Promise<void> {
  const { command } = options;
  if (project.wantsAuth && command !== "worker") refuseAuth(project);
  const { LOOPS } = await import("./compose.js");
  const names = loopsOf(options, LOOPS);
  const { compose, parts, graphs, databaseUrl, log } = await openServing(project, config, command);
  for (const warning of project.warnings) log.warn({}, `${project.path}: ${warning}`);
  const { retention, approvals, policyOf } = project.settings;
  const engine = compose.composeEngine(parts, graphs, { ...config, databaseUrl, retention, approvals, policyOf });
  const concurrency =
    options.concurrency ?? config.concurrency ?? project.settings.concurrency ?? compose.DEFAULT_CONCURRENCY;
  const address = { host: options.host ?? config.host, port: options.port ?? config.port };
  const { serve } = await import("./cli/serve.js");
  await serve({
    ...parts.deps,
    name: command,
    listen: command === "worker" ? null : () => compose.listenApi(engine, address),
    prepare: () => compose.prepareEngine(engine),
    loops: () => compose.composeLoops(engine, names, { concurrency, startIsolated: () => startIsolated(project) }),
    close: () => parts.close(),
    onReady: (url) => {
      tellSupervisor({ ready: true, ...(url === null ? {} : { url }) });
      if (command === "start" && url !== null) terminal.line(`perdure start is ready at ${url}`);
    },
  });
}

function loopsOf({ command, loops }: ServeOptions, all: readonly LoopName[]): readonly LoopName[] {
  if (command === "api") return [];
  return loops === null ? all : loops.map((loop) => choiceArgument(loop, "--loops", all));
}

/** Answering everybody although the project says whom to let in would be worse than not starting. */
function refuseAuth({ path }: Project): never {
  throw new EngineError(
    "config_invalid",
    `${path}: "auth.path" has no effect in this version of perdure, and without it everyone would be let in; remove it and guard the API by other means`,
  );
}

function tellSupervisor(message: ChildMessage): boolean {
  return process.send?.(message) ?? false;
}

async function main(): Promise<number> {
  try {
    return await runProgram(process.argv.slice(2), readVersions().perdure, handlers);
  } catch (error) {
    const exitCode = exitCodeOf(error);
    const text = errorText(error, debugging);
    if (!tellSupervisor({ failed: text.replace(/^perdure: /, ""), exitCode })) terminal.note(text);
    return exitCode;
  }
}

// Graphs may hold sockets and timers of their own: what we opened is closed, and nothing else is waited for.
process.exit(await main());
