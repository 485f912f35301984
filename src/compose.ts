// The one place that builds the parts and wires them. No behaviour: what happens is in the parts.
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { v7 as uuidv7 } from "uuid";
import { type AppOptions, createApp } from "./api/app.js";
import { createAccounts, type SecretKeys } from "./engine/channel-accounts.js";
import { createInboxNews } from "./engine/inbox-news.js";
import { createThreadNews } from "./engine/thread-news.js";
import { createPost } from "./engine/post.js";
import { tellingOf } from "./engine/telling.js";
import { createDeliverer } from "./engine/loops/deliverer.js";
import { createReceiver } from "./engine/loops/receiver.js";
import type { ChannelAdapter, Channels } from "./delivery/channel.js";
import { CHANNELS } from "./delivery/channels/all.js";
import {
  ANY_WEBHOOK,
  createRunWebhook,
  type OwnRoutes,
  type RunWebhookOptions,
  type WebhookRules,
  whyNot,
} from "./delivery/channels/run-webhook.js";
import { ACTING_AS } from "./api/auth/door.js";
import { principalOf } from "./api/auth/inside.js";
import { serveApi, type ApiServer } from "./api/server.js";
import { encryptedStore } from "./bodies/encrypted.js";
import { parseSecretKey } from "./bodies/envelope.js";
import { openBodyStore } from "./bodies/open.js";
import { cachedAssistants } from "./assistants/cached.js";
import { createBodyReader } from "./checkpoint/body-reader.js";
import { createPackReader } from "./checkpoint/pack-reader.js";
import type { Clock } from "./core/clock.js";
import type { BodyStore, Deps, Log } from "./core/deps.js";
import { isEngineError } from "./core/errors.js";
import { followupLimits, type FollowupSettings } from "./core/followup-limits.js";
import { DEFAULT_TENANT, type Ids } from "./core/ids.js";
import type { PolicyOf } from "./core/policy.js";
import type { Retention } from "./core/retention.js";
import type { ThreadTtl } from "./core/thread-ttl.js";
import { type ClockOffset, createClockOffset } from "./db/clock-offset.js";
import { createNotifier } from "./db/listen.js";
import { openDb } from "./db/pool.js";
import { createGate, type GateSettings } from "./api/auth/gate.js";
import { callerFrom } from "./api/caller.js";
import { createOnTouch } from "./engine/adopt/on-touch.js";
import { openSource, type Source } from "./engine/adopt/source.js";
import { type ApprovalDefaults, policyOf } from "./engine/approval-policy.js";
import { createAcceptor } from "./engine/commands/accept-run.js";
import { registerAssistants } from "./engine/commands/register-assistants.js";
import { createSettler } from "./engine/commands/settle-run.js";
import { createCombiner } from "./engine/commit.js";
import { refuseUnfitEdgeGraphs } from "./engine/edge.js";
import type { Engine } from "./engine/engine.js";
import { type CrashHook, dyingAt, dyingWhenClaimed } from "./engine/executor/crash-points.js";
import { isolateCrashed, receiveClaim } from "./engine/executor/isolated.js";
import { createExecutor } from "./engine/executor/execute.js";
import type { Graphs } from "./engine/graphs.js";
import { createHandover } from "./engine/handover.js";
import { type Heartbeat, startHeartbeat } from "./engine/heartbeat/heartbeat.js";
import { type HeaderRules, PLAIN_HTTP } from "./engine/http-json.js";
import type { AssistantSettings } from "./engine/assistant-json.js";
import { bindLoopback } from "./engine/loopback.js";
import { createIndexer } from "./engine/loops/indexer.js";
import { createLoop } from "./engine/loops/loop.js";
import { createMover } from "./engine/loops/mover.js";
import { createPruner, setRetentionTimer } from "./engine/loops/pruner.js";
import { createScheduler } from "./engine/loops/scheduler.js";
import { createSweeper } from "./engine/loops/sweeper.js";
import { createWorker, type Execute } from "./engine/loops/worker.js";
import { outreachLimits, type OutreachSettings } from "./core/outreach-limits.js";
import { channelsByKind } from "./engine/own-channels.js";
import { ownWebhooks } from "./engine/own-webhooks.js";
import { createReads } from "./engine/reads.js";
import { createSlots, type Slots } from "./engine/slots.js";
import { createStreamAppender } from "./engine/stream/sink.js";
import { createTenantOpener } from "./engine/open-tenant.js";
import { createStreams } from "./engine/stream/streams.js";
import { openStore, type GraphStore } from "./engine/store.js";
import type { StoreIndex } from "./engine/store-index.js";
import type { StoreTtl } from "./engine/store-json.js";
import { createMeasures, GAUGES } from "./engine/measures.js";
import { createMeters } from "./observe/meters.js";
import { preview } from "./observe/preview.js";
import type { ConfiguredLimits } from "./runs/claim.js";

export const DEFAULT_CONCURRENCY = 10;
const CLOCK_MS = 60_000;
/** Connections to the database that threads are adopted from, at most. */
const ADOPTING = 4;
/** For bodies, and again for the packs they come from. */
const CACHE_BYTES = 64 * 1024 * 1024;
/** How long runs may take to reach a checkpoint when their worker stops, before they are cut off. */
const DRAIN_MS = 10_000;
/** In so long the heartbeat's thread has started; a shorter lease could be over before, and isn't taken until it has. */
const STARTING_MS = 5_000;

/** Time as this machine has it, for waiting only. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) return resolve();
      const wake = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(ms, 2_147_483_647));
      signal?.addEventListener("abort", wake);
    }),
};

/** UUIDv7: sorts by the time it was made. */
export const uuidIds: Ids = { next: <T extends string>() => uuidv7() as T };

export type PartsOptions = Readonly<{
  databaseUrl: string;
  /** A direct connection for LISTEN; DATABASE_URL unless it is a pooler. */
  listenUrl?: string | null;
  bodies: string;
  s3ForcePathStyle?: boolean;
  s3Checksums?: boolean;
  /** 32 bytes in hex or base64, to encrypt what goes to the object store; null or none: it isn't. */
  secretKey?: string | null;
  oldSecretKeys?: readonly string[];
  /** Connections to Postgres at most. */
  dbPool?: number;
  storeTtl?: StoreTtl | null;
  /** What items are found by; null or left out: by words. */
  storeIndex?: StoreIndex | null;
  /** Where threads are adopted from when they are first touched. */
  adoptFrom?: string | null;
  log: Log;
  applicationName: string;
}>;

export type Parts = Readonly<{
  deps: Deps;
  store: GraphStore;
  source: Source | null;
  /** Also for what is sealed in the database. */
  keys: SecretKeys;
  close(): Promise<void>;
}>;

/** Opens everything outside; nothing is connected before it is used. */
export function openParts(options: PartsOptions): Parts {
  const { databaseUrl, log, applicationName } = options;
  const db = openDb({ url: databaseUrl, max: options.dbPool ?? 10, log, applicationName });
  const clock = systemClock;
  const random = Math.random;
  const notifier = createNotifier({ db, listenUrl: options.listenUrl ?? databaseUrl, log, clock, random });
  const keys = secretKeys(options);
  const bodies = openBodies(options, keys);
  const { storeTtl: ttl = null, storeIndex: index = null } = options;
  const store = openStore(databaseUrl, { sql: db, log, clock, random, ttl, index });
  const { adoptFrom: from } = options;
  const source = from ? openSource({ from, databaseUrl, max: ADOPTING, log }) : null;
  return {
    deps: { db, bodies, notifier, clock, ids: uuidIds, log, random },
    store,
    source,
    keys,
    async close() {
      await notifier.close();
      await Promise.all([db.close(), bodies.close(), store.close(), source?.close()]);
    },
  };
}

function secretKeys({ secretKey = null, oldSecretKeys = [] }: PartsOptions): SecretKeys {
  return {
    current: secretKey === null ? null : parseSecretKey(secretKey, "PERDURE_SECRET_KEY"),
    old: oldSecretKeys.map((key) => parseSecretKey(key, "PERDURE_OLD_SECRET_KEYS")),
  };
}

function openBodies(options: PartsOptions, { current, old }: SecretKeys): BodyStore {
  const { s3ForcePathStyle, s3Checksums } = options;
  const s3 = {
    ...(s3ForcePathStyle !== undefined && { forcePathStyle: s3ForcePathStyle }),
    ...(s3Checksums !== undefined && { checksums: s3Checksums }),
  };
  return encryptedStore(openBodyStore(options.bodies, { s3 }), current === null ? null : { current, old });
}

export type EngineSettings = Readonly<{
  databaseUrl: string;
  /** The graph of threads that are adopted when they are read. */
  adoptGraph?: string | null;
  leaseMs: number;
  pollMs: number;
  moveAfterMs: number;
  maxBlockMs: number;
  previews: boolean;
  logLevel: string;
  /** Null: everything is kept for ever. */
  retention: Retention | null;
  /** How long threads that clients make are kept, where they don't say so; null or left out: for ever. */
  threadTtl?: ThreadTtl | null;
  /** Who is let in, and by whom that is said; "open": everybody. */
  auth: "open" | Omit<GateSettings, "openTenant">;
  /** Whether headers say who asks. */
  identityHeaders: boolean;
  /** Whether what only suites of tests may ask for is served. */
  testRoutes?: boolean;
  approvals: ApprovalDefaults;
  /** How the runs of a graph are treated when something goes wrong. */
  policyOf: PolicyOf;
  /** Runs of each tenant that are executed at a time, where `perdure limits` doesn't say; null or left out: as many as there are slots. */
  maxRunningPerTenant?: number | null;
  telegramApiRoot?: string | null;
  whatsappApiRoot?: string | null;
  slackApiRoot?: string | null;
  /** What completion webhooks are signed with; where they may go, and what they bring. */
  webhookSecrets?: readonly string[];
  webhookPrivate?: boolean;
  webhookRules?: WebhookRules;
  configurableHeaders?: HeaderRules;
  /** Whether a route of the project's own takes a POST there; null or left out: it has none. */
  takesWebhook?: OwnRoutes["takes"] | null;
  /** Where the API is, if webhooks to those routes aren't told in this process. */
  apiUrl?: string | null;
  /** What the graphs' own assistants are configured with. */
  assistants?: AssistantSettings;
  /** Besides those that come with perdure. */
  channels?: readonly ChannelAdapter[];
  /** For tests: where attempts die. */
  crash?: CrashHook;
}> &
  FollowupSettings &
  OutreachSettings;

export type ComposedEngine = Engine &
  Readonly<{ settings: EngineSettings; store: GraphStore; slots: Slots; clockOffset: ClockOffset }>;

/** What the doors and loops get. There is one tenant for now, and every request is its. */
export function composeEngine(
  { deps, store, source, keys }: Parts,
  graphs: Graphs,
  settings: EngineSettings,
  owner = newOwner(),
): ComposedEngine {
  const { leaseMs, moveAfterMs } = settings;
  const bodyReader = createBodyReader({
    sql: deps.db,
    bodies: deps.bodies,
    packs: createPackReader(deps.bodies, { cacheBytes: CACHE_BYTES }),
    cacheBytes: CACHE_BYTES,
  });
  const slots = createSlots();
  const hasRetention = settings.retention !== null;
  const tenantOpener = createTenantOpener(deps, {
    ...{ graphIds: graphs.ids, hasRetention, settings: settings.assistants },
  });
  const webhooks = webhooksOf(deps, settings);
  return {
    deps,
    graphs,
    gate: settings.auth === "open" ? null : createGate(deps, { ...settings.auth, openTenant: tenantOpener }),
    tenantOf: () => Promise.resolve(DEFAULT_TENANT),
    callerOf: settings.identityHeaders ? callerFrom : null,
    configurableHeaders: settings.configurableHeaders ?? PLAIN_HTTP.configurableHeaders,
    approvals: (graphId) => policyOf(settings.approvals, graphId),
    threadTtl: settings.threadTtl ?? null,
    bodyReader,
    readiness: { prepared: false },
    testRoutes: settings.testRoutes ?? false,
    policyOf: settings.policyOf,
    accounts: createAccounts(channelsOf(settings, createRunWebhook(webhooks)), keys, apiRootsOf(settings)),
    webhookRefusal: (url) => whyNot(url, webhooks),
    outreach: outreachLimits(settings),
    followups: followupLimits(settings),
    inboxNews: createInboxNews(deps),
    storeOf: store.of,
    threadNews: createThreadNews(deps),
    streams: createStreams(deps.db),
    assistant: cachedAssistants(deps.db),
    acceptRun: createAcceptor(deps, slots),
    reads: createReads(deps, bodyReader),
    handover: createHandover(),
    meters: createMeters(GAUGES),
    measures: createMeasures(deps),
    slots,
    edits: { owner, combiner: createCombiner(deps, owner), leaseMs, moveAfterMs },
    onTouch: source === null ? null : createOnTouch(source, graphs, settings.adoptGraph ?? null),
    settings,
    store,
    clockOffset: createClockOffset(deps.db),
  };
}

function channelsOf({ channels = [] }: EngineSettings, runWebhook: ChannelAdapter): Channels {
  return channelsByKind([...CHANNELS.values(), runWebhook, ...channels]);
}

function webhooksOf(deps: Deps, settings: EngineSettings): RunWebhookOptions {
  const { webhookRules: rules = ANY_WEBHOOK, webhookSecrets: secrets = [], webhookPrivate = false } = settings;
  const { takesWebhook: takes = null, apiUrl = null } = settings;
  const ownRoutes = takes === null ? null : ownWebhooks(deps, { takes, apiUrl });
  return { rules, secrets, allowPrivate: webhookPrivate, ownRoutes };
}

function apiRootsOf({ telegramApiRoot, whatsappApiRoot, slackApiRoot }: EngineSettings) {
  return { telegram: telegramApiRoot ?? null, whatsapp: whatsappApiRoot ?? null, slack: slackApiRoot ?? null };
}

/** What each process does once the database is there. */
export async function prepareEngine(engine: ComposedEngine): Promise<void> {
  await refuseUnfitEdgeGraphs(engine.graphs, engine.policyOf);
  await probeBodies(engine.deps);
  await engine.clockOffset.refresh();
  const { assistants: settings } = engine.settings;
  await registerAssistants(engine.deps, { tenantId: DEFAULT_TENANT, graphIds: engine.graphs.ids, settings });
  if (engine.settings.retention !== null) await setRetentionTimer(engine.deps, DEFAULT_TENANT);
  engine.readiness.prepared = true;
}

/** A store that can't be used ends the start, with what to change; one that is away for now doesn't: little needs it at once. */
async function probeBodies({ bodies, log }: Deps): Promise<void> {
  try {
    for (const note of await bodies.probe()) log.info({ bodies: bodies.uri }, note);
  } catch (error) {
    if (!isEngineError(error, "unavailable")) throw error;
    log.warn({ bodies: bodies.uri, code: error.code }, `the object store can't be reached yet: ${error.message}`);
  }
}

export const LOOPS = ["worker", "scheduler", "deliverer", "receiver", "mover", "sweeper", "pruner", "indexer"] as const;
export type LoopName = (typeof LOOPS)[number];
export type Running = Readonly<{ start(): void; stop(): Promise<void> }>;

export type WorkerOptions = Readonly<{
  /** Runs executed at a time. */
  concurrency: number;
  /** Starts a process that calls `executeClaim`, for runs that killed a worker before; without it they run here too. */
  startIsolated?: () => ChildProcess;
}>;

/** The loops of a process, to be started. */
export function composeLoops(engine: ComposedEngine, names: readonly LoopName[], options: WorkerOptions): Running[] {
  return names.map((name) => {
    switch (name) {
      case "worker":
        return composeWorker(engine, options);
      case "scheduler":
        return createScheduler(engine.deps, { ...engine.settings, telling: tellingOf(engine) });
      case "deliverer":
        return createDeliverer(engine.deps, {
          ...engine.settings,
          accounts: engine.accounts,
          owner: engine.edits.owner,
        });
      case "receiver":
        return createReceiver(engine, { ...engine.settings, owner: engine.edits.owner });
      case "mover":
        return createMover(engine.deps, engine.settings);
      case "sweeper":
        return createSweeper(engine.deps, engine.settings);
      case "pruner":
        return createPruner(engine.deps, { ...engine.settings, owner: engine.edits.owner });
      case "indexer":
        return createIndexer(engine.deps, engine.store.index);
    }
  });
}

/** What executes claims of the engine's owner, with the heartbeat that keeps their leases. */
function composeExecutor(engine: ComposedEngine): Readonly<{ execute: Execute; heartbeat: Heartbeat }> {
  const { deps, graphs, settings, edits, bodyReader, handover, store, clockOffset } = engine;
  const { owner } = edits;
  const { databaseUrl, leaseMs, maxBlockMs, logLevel, crash } = settings;
  const heartbeat = startHeartbeat(deps.clock, deps.log, { databaseUrl, owner, leaseMs, maxBlockMs, logLevel });
  const settle = createSettler(deps, {
    moveAfterMs: settings.moveAfterMs,
    limited: isLimited(limitsOf(engine)),
    onEnd: (outcome) => engine.meters.attemptEnded(outcome),
    preview: ({ type, message }) => (settings.previews ? preview(`${type}: ${message}`) : null),
  });
  const stores = { combiner: edits.combiner, settle };
  const execute = createExecutor(deps, {
    ...(crash === undefined ? stores : dyingAt(crash, stores)),
    graphs,
    policyOf: settings.policyOf,
    heartbeat,
    bodyReader,
    handover,
    storeOf: store.of,
    moveAfterMs: settings.moveAfterMs,
    approvals: engine.approvals,
    followups: engine.followups,
    appendStream: createStreamAppender(deps),
    live: engine.streams.live,
    post: createPost(deps, engine.accounts),
    clockOffsetMs: clockOffset.ms,
  });
  return { execute: crash === undefined ? execute : dyingWhenClaimed(crash, execute), heartbeat };
}

/** In a process that a worker started: executes the one claim it is sent, with that worker's lease. */
export async function executeClaim(
  parts: Parts,
  graphs: Graphs,
  settings: EngineSettings,
  options: () => Promise<AppOptions>,
): Promise<void> {
  await receiveClaim(async (claim) => {
    const engine = composeEngine(parts, graphs, settings, claim.lease.owner);
    await engine.clockOffset.refresh();
    const { execute, heartbeat } = composeExecutor(engine);
    const close = composeInnerApi(engine, options);
    // The worker keeps the lease until it can be kept here.
    await heartbeat.ready;
    const executed = execute(claim.run, claim.lease, claim);
    claim.holding();
    await executed;
    await heartbeat.stop();
    close();
  });
}

function limitsOf({ graphs, settings }: ComposedEngine): ConfiguredLimits {
  const ofGraphs = graphs.ids.map((graphId) => settings.policyOf(graphId).maxRunning);
  return { graphs: ofGraphs, tenant: settings.maxRunningPerTenant ?? null };
}

function isLimited({ graphs, tenant }: ConfiguredLimits): boolean {
  return [...graphs, tenant].some((max) => max !== null);
}

function composeWorker(engine: ComposedEngine, { concurrency, startIsolated }: WorkerOptions): Running {
  const { deps, graphs, settings, slots, clockOffset } = engine;
  const { owner, leaseMs } = engine.edits;
  const { execute: inProcess, heartbeat } = composeExecutor(engine);
  const execute = startIsolated === undefined ? inProcess : isolateCrashed(deps, heartbeat, inProcess, startIsolated);
  const worker = createWorker(deps, {
    ...settings,
    owner,
    graphIds: graphs.ids,
    versions: graphs.ids.map(graphs.version),
    limits: limitsOf(engine),
    concurrency,
    ready: leaseMs < STARTING_MS ? heartbeat.ready : Promise.resolve(),
    execute,
    slots,
  });
  const clock = createLoop(deps, {
    name: "clock",
    pollMs: CLOCK_MS,
    tick: async () => (await clockOffset.refresh(), 0),
  });
  return {
    start() {
      worker.start();
      clock.start();
    },
    async stop() {
      await Promise.all([worker.stop(DRAIN_MS), clock.stop()]);
      await heartbeat.stop();
    },
  };
}

type Address = Readonly<{ host: string; port: number; waits?: boolean }>;

export type Api = Readonly<{
  app: ReturnType<typeof createApp>;
  close(): void;
}>;

/** The API; graphs and routes of this process find it from now on as well. */
export function composeApi(engine: ComposedEngine, options: AppOptions): Api {
  const app = createApp(engine, options);
  return { app, close: openInside(engine, () => Promise.resolve(app)) };
}

/** The same for graphs alone, made when the first of them calls it. */
export function composeInnerApi(engine: ComposedEngine, options: () => Promise<AppOptions>): () => void {
  let made: Promise<Api["app"]> | undefined;
  return openInside(engine, () => (made ??= options().then((given) => createApp(engine, given))));
}

function openInside(engine: ComposedEngine, app: () => Promise<Api["app"]>): () => void {
  return bindLoopback(engine.deps, async (request, who) => {
    const principal = who && principalOf(who, engine.settings.auth);
    return (await app()).fetch(request, principal === null ? {} : { [ACTING_AS]: principal });
  });
}

/** The API on a port. */
export function listenApi(engine: Engine, address: Address, app = createApp(engine)): Promise<ApiServer> {
  return serveApi(app, address);
}

/** Who claims: unique per process start, so that no fence is made twice. */
export function newOwner(): string {
  return `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
}
