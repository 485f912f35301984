// The one place that builds the parts and wires them, but for the API and the loops: compose-api.ts, compose-loops.ts. No behaviour: what happens is in the parts.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { v7 as uuidv7 } from "uuid";
import { createAccounts, type SecretKeys } from "./engine/channel-accounts.js";
import { createInboxNews } from "./engine/inbox-news.js";
import { createThreadNews } from "./engine/thread-news.js";
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
import { encryptedStore } from "./bodies/encrypted.js";
import { parseSecretKey } from "./bodies/envelope.js";
import { openBodyStore } from "./bodies/open.js";
import { cachedAssistants } from "./assistants/cached.js";
import { createBodyReader } from "./checkpoint/body-reader.js";
import { createPackReader } from "./checkpoint/pack-reader.js";
import type { Gate } from "./core/access.js";
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
import { createCombiner } from "./engine/commit.js";
import { refuseUnfitEdgeGraphs } from "./engine/edge.js";
import type { Engine } from "./engine/engine.js";
import type { CrashHook } from "./engine/executor/crash-points.js";
import type { Graphs } from "./engine/graphs.js";
import { createHandover } from "./engine/handover.js";
import { type HeaderRules, PLAIN_HTTP } from "./engine/http-json.js";
import type { AssistantSettings } from "./engine/assistant-json.js";
import { setRetentionTimer } from "./engine/loops/pruner.js";
import { outreachLimits, type OutreachSettings } from "./core/outreach-limits.js";
import { channelsByKind } from "./engine/own-channels.js";
import { ownWebhooks } from "./engine/own-webhooks.js";
import { createReads } from "./engine/reads.js";
import { createSlots, type Slots } from "./engine/slots.js";
import { createTenantOpener } from "./engine/open-tenant.js";
import { createStreams } from "./engine/stream/streams.js";
import { openStore, type GraphStore } from "./engine/store.js";
import type { StoreIndex } from "./engine/store-index.js";
import type { StoreTtl } from "./engine/store-json.js";
import { createMeasures, GAUGES } from "./engine/measures.js";
import { createMeters } from "./observe/meters.js";

/** Connections to the database that threads are adopted from, at most. */
const ADOPTING = 4;
/** For bodies, and again for the packs they come from. */
const CACHE_BYTES = 64 * 1024 * 1024;

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
  const webhooks = webhooksOf(deps, settings);
  return {
    deps,
    graphs,
    gate: composeGate(deps, graphs, settings),
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

/** Null: everybody is let in. */
export function composeGate(deps: Deps, graphs: Graphs, { auth, retention, assistants }: EngineSettings): Gate | null {
  if (auth === "open") return null;
  const opened = { graphIds: graphs.ids, hasRetention: retention !== null, settings: assistants };
  return createGate(deps, { ...auth, openTenant: createTenantOpener(deps, opened) });
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

/** Who claims: unique per process start, so that no fence is made twice. */
export function newOwner(): string {
  return `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
}
