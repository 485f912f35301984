// Processes that stay: the development server, the API and the loops, and the one that executes a single claim.
import { type ChildProcess, spawn } from "node:child_process";
import { choiceArgument } from "./cli/arguments.js";
import { EXECUTE_CLAIM, type ServeOptions, type Serving } from "./cli/commands/serving.js";
import type { ChildMessage } from "./cli/dev/child.js";
import { terminal } from "./cli/output.js";
import type { LoopName } from "./compose.js";
import { type Config, environmentWith } from "./config.js";
import { EngineError } from "./core/errors.js";
import type { Project } from "./engine/langgraph-json.js";
import { createLog } from "./observe/log.js";
import { bodiesOf, databaseOf, engineSettings, loadGraphs, quietLevel, quietLog, readProjectSettings } from "./open.js";

/** `binary` is what its children are started with. */
export function createServing(binary: string): Serving {
  return {
    async dev(place, options) {
      const { config } = await readProjectSettings(place);
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
        command: (name, ...args) => [binary, name, "--config", configPath, ...args],
        environment: (values) => environmentWith({ PERDURE_LOG_LEVEL: quietLevel(config), ...values }),
        migrate: (databaseUrl) => migrateDatabase(databaseUrl, log),
        movableClock: options.movableClock,
        openClock: async (databaseUrl, wanted) => {
          const { openClock } = await import("./testing/clock.js");
          return openClock(databaseUrl, { wanted, log });
        },
        openChat: async (at) => {
          const { openDevChat } = await import("./testing/chat/open.js");
          return openDevChat({ ...at, log });
        },
        out: terminal,
        log,
      });
    },

    async serve(place, options) {
      const { project, config } = await readProjectSettings(place);
      await serveProcess(binary, project, config, options);
    },

    async executeClaim(place) {
      const { project, config } = await readProjectSettings(place);
      const { executeClaim } = await import("./compose.js");
      const { watchStrayErrors } = await import("./engine/stray-errors.js");
      const { parts, graphs, databaseUrl } = await openServing(project, config, EXECUTE_CLAIM);
      const unwatch = watchStrayErrors(parts.deps.log);
      try {
        await executeClaim(parts, graphs, {
          ...(await engineSettings(config, project, databaseUrl)),
          retention: null,
        });
      } finally {
        await parts.close();
        unwatch();
      }
    },
  };
}

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

async function serveProcess(binary: string, project: Project, config: Config, options: ServeOptions): Promise<void> {
  const { command } = options;
  if (project.wantsAuth && command !== "worker") refuseAuth(project);
  const { LOOPS } = await import("./compose.js");
  const names = loopsOf(options, LOOPS);
  const { compose, parts, graphs, databaseUrl, log } = await openServing(project, config, command);
  for (const warning of project.warnings) log.warn({}, `${project.path}: ${warning}`);
  const engine = compose.composeEngine(parts, graphs, await engineSettings(config, project, databaseUrl));
  const concurrency =
    options.concurrency ?? config.concurrency ?? project.settings.concurrency ?? compose.DEFAULT_CONCURRENCY;
  const address = { host: options.host ?? config.host, port: options.port ?? config.port };
  const workers = { concurrency, startIsolated: () => startIsolated(binary, project) };
  const { serve } = await import("./cli/serve.js");
  await serve({
    ...parts.deps,
    name: command,
    listen: command === "worker" ? null : () => compose.listenApi(engine, address),
    prepare: () => compose.prepareEngine(engine),
    loops: () => compose.composeLoops(engine, names, workers),
    close: () => parts.close(),
    onReady: (url) => {
      tellSupervisor({ ready: true, ...(url === null ? {} : { url }) });
      if (command === "start" && url !== null) terminal.line(`perdure start is ready at ${url}`);
    },
  });
}

/** A process for one run that killed a worker before: the same program, settings and graphs. */
function startIsolated(binary: string, project: Project): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, binary, EXECUTE_CLAIM, "--config", project.path], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
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

/** False: nobody supervises this process. */
export function tellSupervisor(message: ChildMessage): boolean {
  return process.send?.(message) ?? false;
}
