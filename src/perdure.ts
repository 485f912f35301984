// What `createPerdure` gives: an engine in a process of one's own, without the command line.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { mounted } from "./api/mounted.js";
import { composeApi } from "./compose-api.js";
import { composeLoops, DEFAULT_CONCURRENCY, type LoopName, LOOPS, type Running } from "./compose-loops.js";
import { composeEngine, type EngineSettings, openParts, prepareEngine } from "./compose.js";
import type { AuthModule } from "./core/access.js";
import { type LogLevel, readConfig } from "./config.js";
import { refuseVersion } from "./core/pin.js";
import { policiesFrom, type RunPolicy } from "./core/policy.js";
import type { Retention } from "./core/retention.js";
import type { ThreadTtl } from "./core/thread-ttl.js";
import { checkSchema } from "./db/migrate.js";
import type { ChannelAdapter } from "./delivery/channel.js";
import { approvalDefaults, type ProjectApprovals } from "./engine/approval-policy.js";
import { asAuth } from "./engine/auth-module.js";
import { graphsFrom } from "./engine/graphs.js";
import { type CorsRules, PLAIN_HTTP } from "./engine/http-json.js";
import { asAdapter } from "./engine/own-channels.js";
import { storeFrom, type StoreOptions } from "./engine/embeddings.js";
import { createLog } from "./observe/log.js";

export type PerdureOptions = Readonly<{
  /** Postgres 14 or newer, migrated by `perdure migrate`. */
  databaseUrl: string;
  /** A direct connection for LISTEN, when `databaseUrl` is a pooler in transaction mode. */
  listenUrl?: string;
  /** Where message bodies live: s3://bucket/prefix or file:///path. */
  bodies: string;
  s3ForcePathStyle?: boolean;
  s3Checksums?: boolean;
  /** 32 bytes in hex or base64: what goes to the object store is encrypted with them. */
  secretKey?: string;
  /** Former secret keys, for what was encrypted with them. */
  oldSecretKeys?: readonly string[];
  /** By id: compiled or not, agents, entrypoints, or functions that make one. */
  graphs: Readonly<Record<string, unknown>>;
  /** Of the graphs' code, as runs record it and assistants are pinned to it: a commit, say. "in-process" unless given. */
  version?: string;
  /** What this process works on; all of it unless said otherwise, nothing with []. */
  loops?: readonly LoopName[];
  /** Runs executed at a time, by this process. */
  concurrency?: number;
  /** Runs of each tenant executed at a time, over all processes, where `perdure limits` doesn't say; of a graph: `policies`. */
  maxRunningPerTenant?: number;
  /** Where LangGraph's PostgresSaver has threads that come over when they are first touched: a schema, or a URL#schema. */
  adoptFrom?: string;
  /** Which of the graphs those threads are of, when there are several. */
  adoptGraph?: string;
  /** What is kept, and how long; everything for ever unless said otherwise. */
  retention?: Retention;
  /** How long threads that clients make are kept after their last change, where they don't say so; for ever unless said otherwise. */
  threadTtl?: ThreadTtl;
  /** The store that graphs have (`config.store`): how long its items stay, in minutes, and what they are found by. */
  store?: StoreOptions;
  /** What questions come with, unless they say so themselves. */
  approvals?: ProjectApprovals;
  /**
   * Whom `fetch` lets in: an `Auth` of @langchain/langgraph-sdk/auth says who a request is of and what that user may; "open": everybody whose request
   * you hand on. Left out: only who has a key of `perdure keys`.
   */
  auth?: "open" | AuthModule;
  /** Whether X-Perdure-Person and X-Perdure-Roles of a request say who asks: set them where you know, whatever the client sent. */
  identityHeaders?: boolean;
  /** What completion webhooks are signed with: `whsec_…`, or two while one takes the other's place. */
  webhookSecrets?: readonly string[];
  /** Whether they may lead into private networks. */
  webhookPrivate?: boolean;
  /** Channels of your own (`perdure/channels`), besides those that come with perdure. */
  channels?: readonly ChannelAdapter[];
  /** How the runs of a graph are treated when something goes wrong, by graph id, where that isn't the default. */
  policies?: Readonly<Record<string, Partial<RunPolicy>>>;
  /** Where your app serves it, like "/api/agents", unless the path is taken off there: as Express and Hono do for requests, and nobody for WebSockets. */
  basePath?: string;
  /** "any" lets each page call it from its browser. Unless given, that is left to your app. */
  cors?: "any" | CorsRules;
  logLevel?: LogLevel;
}>;

export type Perdure = Readonly<{
  /** Answers a request to the API: mount it where your own app serves it. */
  fetch(request: Request): Promise<Response>;
  /** The same for Node: `app.use("/agents", perdure.listener)` of Express, or `createServer(perdure.listener)`. */
  listener(request: IncomingMessage, response: ServerResponse): void;
  /** WebSockets of the thread protocol: `server.on("upgrade", perdure.upgrade)`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Checks the schema, registers the graphs and starts the loops. */
  start(): Promise<void>;
  /** Gives runs back and closes every connection. */
  stop(): Promise<void>;
}>;

/** What `createPerdure` gives. */
export function composePerdure(options: PerdureOptions): Perdure {
  if (options.version !== undefined) refuseVersion(options.version, "version");
  for (const [at, adapter] of (options.channels ?? []).entries()) asAdapter(adapter, `channels[${at}]`);
  const { logLevel, auth: _, ...settings } = readConfig({});
  const log = createLog(options.logLevel ?? logLevel);
  const parts = openParts({ ...options, ...storeFrom(options.store ?? {}), log, applicationName: "perdure" });
  const { retention = null, identityHeaders = false, policies = {} } = options;
  const auth = authOf(options.auth);
  const approvals = approvalDefaults(options.approvals ?? {});
  const policyOf = policiesFrom(policies);
  const engine = composeEngine(parts, graphsFrom(options.graphs, { ...options, policyOf }), {
    ...{ ...settings, ...options, retention, policyOf, logLevel, identityHeaders, approvals, auth },
  });
  const http = { ...PLAIN_HTTP, cors: options.cors ?? ("unsaid" as const) };
  const basePath = (options.basePath ?? "").replace(/\/+$/, "");
  const api = composeApi(engine, { http, basePath });
  const { listener, upgrade, close } = mounted(api.app, basePath);
  let loops: readonly Running[] = [];
  return {
    fetch: async (request) => api.app.fetch(request),
    listener,
    upgrade,
    async start() {
      await checkSchema(parts.deps.db);
      await prepareEngine(engine);
      loops = composeLoops(engine, options.loops ?? LOOPS, {
        concurrency: options.concurrency ?? DEFAULT_CONCURRENCY,
      });
      for (const loop of loops) loop.start();
    },
    async stop() {
      close();
      api.close();
      await Promise.all(loops.map((loop) => loop.stop()));
      await parts.close();
    },
  };
}

function authOf(given: PerdureOptions["auth"]): EngineSettings["auth"] {
  if (given === "open") return "open";
  const module = given === undefined ? null : asAuth(given, "auth");
  return { module, studio: false, jwt: null };
}
