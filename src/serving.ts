// Processes that stay: the development server, the API and the loops, and the one that executes a single claim.
import { type ChildProcess, spawn } from "node:child_process";
import { choiceArgument } from "./cli/arguments.js";
import { EXECUTE_CLAIM, type ServeOptions, type Serving } from "./cli/commands/serving.js";
import type { ChildMessage, ParentMessage } from "./cli/dev/child.js";
import type { AppOptions } from "./api/app.js";
import { terminal } from "./cli/output.js";
import type { EngineSettings } from "./compose.js";
import type { LoopName } from "./compose-loops.js";
import { type Config, environmentWith } from "./config.js";
import type { Deps } from "./core/deps.js";
import type { Project } from "./engine/langgraph-json.js";
import { hasApiKeys } from "./keys/api-keys.js";
import { createLog } from "./observe/log.js";
import {
  authSettings,
  bodiesOf,
  databaseOf,
  engineSettings,
  loadGraphs,
  loadIndex,
  loadOwn,
  quietLevel,
  quietLog,
  readProjectSettings,
} from "./open.js";

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
        environment: (values) =>
          environmentWith({ PERDURE_LOG_LEVEL: quietLevel(config), PERDURE_AUTH: config.auth ?? "dev", ...values }),
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
      const { executeClaim } = await import("./compose-loops.js");
      const { composeInnerApi } = await import("./compose-api.js");
      const { watchStrayErrors } = await import("./engine/stray-errors.js");
      const { parts, graphs, databaseUrl } = await openServing(project, config, EXECUTE_CLAIM);
      const unwatch = watchStrayErrors(parts.deps.log);
      try {
        // Who is let in is of interest when a graph calls the API, which few do.
        const auth = { module: null, studio: false, jwt: null };
        const settings = { ...(await engineSettings(config, project, { databaseUrl, auth })), retention: null };
        const options = async () => ({ ...(await appOptions(project)), auth: await authSettings(config, project) });
        await executeClaim(parts, graphs, settings, (engine) => composeInnerApi(engine, options));
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
  const storeIndex = await loadIndex(project);
  const parts = compose.openParts({
    ...config,
    databaseUrl,
    bodies: bodiesOf(config),
    storeTtl: project.storeTtl,
    storeIndex,
    log,
    applicationName: `perdure ${command}`,
  });
  return { compose, parts, graphs, databaseUrl, log };
}

async function serveProcess(binary: string, project: Project, config: Config, options: ServeOptions): Promise<void> {
  const { command } = options;
  const { composeLoops, DEFAULT_CONCURRENCY, LOOPS } = await import("./compose-loops.js");
  const names = loopsOf(options, LOOPS);
  const { compose, parts, graphs, databaseUrl, log } = await openServing(project, config, command);
  for (const warning of project.warnings) log.warn({}, `${project.path}: ${warning}`);
  const auth = await authSettings(config, project);
  const own = command === "worker" ? null : await openOwn(project);
  const settings = { ...(await engineSettings(config, project, { databaseUrl, auth })), ...own?.settings };
  const engine = compose.composeEngine(parts, graphs, settings);
  const { composeApi, composeInnerApi, listenApi } = await import("./compose-api.js");
  const api = own && composeApi(engine, own.app);
  const close = api?.close ?? composeInnerApi(engine, () => appOptions(project));
  const concurrency = options.concurrency ?? config.concurrency ?? project.settings.concurrency ?? DEFAULT_CONCURRENCY;
  const address = { host: options.host ?? config.host, port: options.port ?? config.port };
  const workers = { concurrency, startIsolated: () => startIsolated(binary, project) };
  const { serve } = await import("./cli/serve.js");
  await serve({
    ...parts.deps,
    name: command,
    turn: options.supervised ? turn : null,
    listen: api && (() => listenApi(engine, { ...address, waits: options.supervised }, api.app)),
    async prepare() {
      await compose.prepareEngine(engine);
      if (command !== "worker") await warnIfShut(parts.deps, settings);
    },
    loops: () => composeLoops(engine, names, workers),
    close: () => (close(), parts.close()),
    onReady: (url) => {
      tellSupervisor({ ready: true, ...(url === null ? {} : { url }) });
      if (command === "start" && url !== null) terminal.line(`perdure start is ready at ${url}`);
    },
  });
}

async function warnIfShut({ db, log }: Deps, { auth }: EngineSettings): Promise<void> {
  if (auth === "open" || auth.module !== null || auth.jwt !== null || (await hasApiKeys(db))) return;
  log.warn(
    {},
    "nobody is let in yet: make a key with `perdure keys create <name>`, give auth.path in langgraph.json or PERDURE_JWT_JWKS_URL, or let everybody in with PERDURE_AUTH=off",
  );
}

/** For calls from inside, which load no components. */
async function appOptions(project: Project): Promise<AppOptions> {
  return { http: project.http, own: await loadOwn(project) };
}

/** Where the API is, webhooks to the project's own routes are told right here. */
async function openOwn(project: Project) {
  const { buildUi } = await import("./engine/graph-ui.js");
  const building = project.http.disabled.has("ui") ? new Map() : buildUi(project);
  const [inside, ui] = await Promise.all([appOptions(project), building]);
  const app: AppOptions = { ...inside, ui };
  const { takesPost } = await import("./api/own-apps.js");
  const takesWebhook = project.http.apps.length === 0 ? null : takesPost(app.own ?? []);
  return { app, settings: { takesWebhook, apiUrl: null } };
}

/** A process for one run that killed a worker before: the same program, settings and graphs. */
function startIsolated(binary: string, project: Project): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, binary, EXECUTE_CLAIM, "--config", project.path], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

/** When the supervisor says so. */
async function turn(): Promise<void> {
  const told = new Promise<void>((resolve) => {
    process.on("message", (message: ParentMessage) => {
      if (message.begin) resolve();
    });
  });
  tellSupervisor({ prepared: true });
  await told;
}

function loopsOf({ command, loops }: ServeOptions, all: readonly LoopName[]): readonly LoopName[] {
  if (command === "api") return [];
  return loops === null ? all : loops.map((loop) => choiceArgument(loop, "--loops", all));
}

/** False: nobody supervises this process. */
export function tellSupervisor(message: ChildMessage): boolean {
  return process.send?.(message) ?? false;
}
