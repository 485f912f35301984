// What commands stand on: settings of the environment and the project, and the parts and the engine opened with them.
import { existsSync } from "node:fs";
import type { Place } from "./cli/command.js";
import { readDevFile } from "./cli/dev/data-dir.js";
import type { Open, Print } from "./cli/open.js";
import { terminal } from "./cli/output.js";
import type { ComposedEngine, EngineSettings, Parts } from "./compose.js";
import { addToEnvironment, type Config, filledIn, readConfigWith } from "./config.js";
import type { AuthModule } from "./core/access.js";
import type { Log } from "./core/deps.js";
import { EngineError } from "./core/errors.js";
import type { ChannelAdapter } from "./delivery/channel.js";
import type { Source } from "./engine/adopt/source.js";
import { assistantSettings } from "./engine/assistant-json.js";
import type { Graphs } from "./engine/graphs.js";
import { type GraphSource, type Project, readProject } from "./engine/langgraph-json.js";
import type { OwnApp } from "./engine/own-apps.js";
import type { StoreIndex } from "./engine/store-index.js";
import { createLog } from "./observe/log.js";

export const NO_BODIES = "PERDURE_BODIES is not set: say where message bodies live, s3://bucket/prefix or file:///path";

export type Settings = Readonly<{ project: Project | null; config: Config }>;

/** Whether errors are told with their stacks; known as soon as settings were read. */
export const told = { withStacks: false };

/** The project's file, if there is one, and the settings of the environment and the project. */
export async function readSettings({ configPath }: Place): Promise<Settings> {
  const file = configPath ?? "langgraph.json";
  return settingsWith(configPath !== null || existsSync(file) ? await readProject(file) : null);
}

/** The same, where nothing can be done without a project. */
export async function readProjectSettings({ configPath }: Place): Promise<Settings & Readonly<{ project: Project }>> {
  const project = await readProject(configPath ?? "langgraph.json");
  return { ...settingsWith(project), project };
}

function settingsWith(project: Project | null): Settings {
  const config = readConfigWith(project?.env ?? {});
  told.withStacks = config.logLevel === "debug";
  return { project, config };
}

/** What an engine is told of the project. */
export async function engineSettings(
  config: Config,
  project: Project,
  { databaseUrl, auth }: Pick<EngineSettings, "databaseUrl" | "auth">,
): Promise<EngineSettings> {
  const { settings, webhooks, http, env } = project;
  const { retention, threadTtl, approvals, policyOf, maxRunningPerTenant } = settings;
  const headers = filledIn(webhooks.rules.headers, { env, prefix: webhooks.prefix, at: "webhooks.headers" });
  const webhookRules = { ...webhooks.rules, headers, off: http.disabled.has("webhooks") };
  const graphIds = project.graphs.map(({ id }) => id);
  const assistants = assistantSettings(config.langgraphConfig, graphIds);
  const channels = await loadOwnChannels(project);
  return {
    ...config,
    databaseUrl,
    retention,
    threadTtl,
    approvals,
    policyOf,
    maxRunningPerTenant,
    webhookRules,
    channels,
    auth,
    assistants,
    configurableHeaders: http.configurableHeaders,
    // Its routes are known where the API is, which has refused what none of them takes.
    takesWebhook: http.apps.length === 0 ? null : () => true,
  };
}

/** Throws `config_invalid` for what contradicts itself: nobody is let in by mistake. */
export async function authSettings(config: Config, { auth, env, path }: Project): Promise<EngineSettings["auth"]> {
  const jwt = jwtSettings(config);
  const isGiven = auth !== null || jwt !== null;
  if (config.auth === "off" && isGiven) {
    const what = auth === null ? "PERDURE_JWT_JWKS_URL" : `"auth.path" of ${path}`;
    throw new EngineError(
      "config_invalid",
      `PERDURE_AUTH=off would let everybody in in spite of ${what}; take one away`,
    );
  }
  if (config.auth === "off" || (config.auth === "dev" && !isGiven)) return "open";
  const module = await loadAuth({ auth, env });
  if (auth === null || module === null) return { module: null, studio: false, jwt };
  if (jwt !== null && module["~handlerCache"].authenticate !== undefined) {
    const message = `PERDURE_JWT_JWKS_URL has no effect beside the authenticate of ${path}'s "auth.path"; take one away`;
    throw new EngineError("config_invalid", message);
  }
  return { module, studio: config.auth === "dev" && !auth.disableStudio, jwt };
}

/** The project's own code, as that of graphs is; null: it has none for this. */
export async function loadAuth({ auth, env }: Pick<Project, "auth" | "env">): Promise<AuthModule | null> {
  if (auth === null) return null;
  addToEnvironment(env);
  const { loadAuth: load } = await import("./engine/auth-module.js");
  return load(auth.source);
}

function jwtSettings(config: Config) {
  const { jwtJwksUrl: jwksUrl, jwtIssuer: issuer, jwtAudience, jwtTenantClaim, jwtPermissionsClaim } = config;
  if (jwksUrl === null) return null;
  if (issuer === null || jwtAudience === null) {
    throw new EngineError(
      "config_invalid",
      "PERDURE_JWT_JWKS_URL needs PERDURE_JWT_ISSUER and PERDURE_JWT_AUDIENCE: one issuer's keys sign tokens for many",
    );
  }
  const audience = jwtAudience === "*" ? null : jwtAudience;
  return { jwksUrl, issuer, audience, tenantClaim: jwtTenantClaim, permissionsClaim: jwtPermissionsClaim };
}

/** Their modules run user code, as those of graphs do. */
async function loadOwnChannels({ channels, env }: Project): Promise<ChannelAdapter[]> {
  if (channels.length === 0) return [];
  addToEnvironment(env);
  const { loadChannels } = await import("./engine/own-channels.js");
  return loadChannels(channels);
}

/** The project's own routes: their modules run user code, too. */
export async function loadOwn({ http, env }: Project): Promise<OwnApp[]> {
  if (http.apps.length === 0) return [];
  addToEnvironment(env);
  const { loadOwnApps } = await import("./engine/own-apps.js");
  return loadOwnApps(http);
}

/** What the store is indexed by; null: by nothing. */
export async function loadIndex({ storeIndex, env }: Pick<Project, "storeIndex" | "env">): Promise<StoreIndex | null> {
  if (storeIndex === null) return null;
  addToEnvironment(env);
  const { loadStoreIndex } = await import("./engine/embeddings.js");
  return loadStoreIndex(storeIndex);
}

/** Whether the rest of the project's own code can be used; gives the files it is made of. */
export async function tryOthers(project: Project): Promise<string[]> {
  await loadOwn(project);
  await loadOwnChannels(project);
  await loadIndex(project);
  const { buildUi } = await import("./engine/graph-ui.js");
  await buildUi(project);
  const { moduleFiles } = await import("./engine/module-files.js");
  return moduleFiles(project);
}

/** Graph files run user code; what loads them is loaded when it is needed. */
export async function loadGraphs(project: Project): Promise<Graphs> {
  addToEnvironment(project.env);
  const { loadGraphs: load } = await import("./engine/graphs.js");
  let loading: GraphSource | undefined;
  const onExit = (code: number): void => {
    if (loading !== undefined) terminal.note(endedOnImport(loading, code));
    process.exitCode = 2;
  };
  process.once("exit", onExit);
  try {
    return await load(project.graphs, { ...project.settings, onLoad: (source) => (loading = source) });
  } finally {
    process.off("exit", onExit);
  }
}

function endedOnImport({ id, file }: GraphSource, code: number): string {
  const why = "it calls process.exit, awaits what never comes, or leaves an error to nobody";
  return `perdure: graph "${id}" (${file}) ended the process on import (exit code ${code}): ${why}`;
}

export function databaseOf(config: Config, command: string): string {
  if (config.databaseUrl !== null) return config.databaseUrl;
  throw new EngineError(
    "config_invalid",
    `DATABASE_URL is not set: \`perdure ${command}\` needs a Postgres (14 or newer); only \`perdure dev\` brings its own`,
  );
}

export function bodiesOf(config: Config): string {
  if (config.bodies !== null) return config.bodies;
  throw new EngineError("config_invalid", NO_BODIES);
}

/** The installation that DATABASE_URL names, or else the development server in the data dir. */
export async function findInstallation(
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
export function quietLog(config: Config): Log {
  return createLog(quietLevel(config), { process: `cli/${process.pid}` });
}

export function quietLevel({ logLevel }: Config): Config["logLevel"] {
  return logLevel === "info" ? "warn" : logLevel;
}

export const printer = (place: Place): Print => ({ ...terminal, json: place.json });

/** For commands that look or answer: the parts without listening, closed afterwards. */
export async function withParts<T>(
  place: Place,
  { config, project }: Settings,
  needs: Readonly<{ bodies: boolean; schema?: boolean; adopts?: boolean }>,
  work: (parts: Parts) => Promise<T>,
): Promise<T> {
  if (project !== null) addToEnvironment(project.env);
  const { databaseUrl, bodies } = await findInstallation(config, place.dataDir);
  const { openParts } = await import("./compose.js");
  const parts = openParts({
    ...config,
    databaseUrl,
    bodies: needs.bodies ? (bodies ?? bodiesOf(config)) : "memory:",
    dbPool: 4,
    adoptFrom: needs.adopts === true ? config.adoptFrom : null,
    log: quietLog(config),
    applicationName: "perdure cli",
  });
  try {
    if (needs.schema ?? true) await (await import("./db/migrate.js")).checkSchema(parts.deps.db);
    return await work(parts);
  } finally {
    await parts.close();
  }
}

async function withEngine<T>(
  place: Place,
  { adopts }: Readonly<{ adopts: boolean }>,
  work: (engine: ComposedEngine) => Promise<T>,
): Promise<T> {
  const settings = await readProjectSettings(place);
  const { project, config } = settings;
  return await withParts(place, settings, { bodies: true, adopts }, async (parts) => {
    const { composeEngine } = await import("./compose.js");
    const { databaseUrl } = await findInstallation(config, place.dataDir);
    // Whoever is here has the database: there is no door.
    const engine = { ...(await engineSettings(config, project, { databaseUrl, auth: "open" })), retention: null };
    return await work(composeEngine(parts, await loadGraphs(project), engine));
  });
}

async function withSource<T>(
  place: Place,
  given: string | null,
  work: (engine: ComposedEngine, source: Source) => Promise<T>,
): Promise<T> {
  const { config } = await readProjectSettings(place);
  const from = given ?? config.adoptFrom;
  if (from === null) {
    throw new EngineError("config_invalid", "--from: say where the threads are, a schema or postgres://…#schema");
  }
  const { databaseUrl } = await findInstallation(config, place.dataDir);
  const { openSource } = await import("./engine/adopt/source.js");
  const source = openSource({ from, databaseUrl, max: 4, log: quietLog(config) });
  try {
    return await withEngine(place, { adopts: false }, (engine) => work(engine, source));
  } finally {
    await source.close();
  }
}

export const open: Open = {
  async parts(at, needs, work) {
    const settings = await readSettings(at);
    const { leaseMs, moveAfterMs } = settings.config;
    const { newOwner } = await import("./compose.js");
    const retention = settings.project?.settings.retention ?? null;
    return await withParts(at, settings, needs, ({ deps }) =>
      work({ deps, retention, owner: newOwner(), leaseMs, moveAfterMs }, printer(at)),
    );
  },
  engine: (at, work) => withEngine(at, { adopts: true }, (engine) => work(engine, printer(at))),
  source: (at, from, work) => withSource(at, from, (engine, source) => work(engine, source, printer(at))),
};
