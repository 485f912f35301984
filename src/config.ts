// The one place that reads process.env: every setting with its default and a sentence, parsed once into a frozen Config.
// Durations are in milliseconds. An unknown PERDURE_* name is refused: a setting that is misspelt must not be ignored.
import { z } from "zod";
import { EngineError } from "./core/errors.js";
import { FOLLOWUP_LIMITS } from "./core/followup-limits.js";
import { nearest } from "./core/nearest.js";
import { OUTREACH_LIMITS } from "./core/outreach-limits.js";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export type Config = Readonly<{
  databaseUrl: string | null;
  listenUrl: string | null;
  bodies: string | null;
  s3ForcePathStyle: boolean;
  s3Checksums: boolean;
  secretKey: string | null;
  oldSecretKeys: readonly string[];
  host: string;
  port: number;
  leaseMs: number;
  pollMs: number;
  moveAfterMs: number;
  maxBlockMs: number;
  concurrency: number | null;
  dbPool: number;
  previews: boolean;
  auth: "on" | "off" | "dev" | null;
  jwtJwksUrl: string | null;
  jwtIssuer: string | null;
  jwtAudience: string | null;
  jwtTenantClaim: string | null;
  jwtPermissionsClaim: string | null;
  identityHeaders: boolean;
  testRoutes: boolean;
  telegramApiRoot: string | null;
  whatsappApiRoot: string | null;
  slackApiRoot: string | null;
  shortestRecurrenceMs: number;
  outreachPerDay: number;
  outreachRunning: number;
  followupsPerThread: number;
  followupsPerTenant: number;
  followupShortestMs: number;
  followupHorizonDays: number;
  followupDepth: number;
  webhookSecrets: readonly string[];
  webhookPrivate: boolean;
  adoptFrom: string | null;
  adoptGraph: string | null;
  langgraphConfig: string | null;
  apiUrl: string | null;
  logLevel: LogLevel;
}>;

const postgresUrl = z
  .string()
  .refine((text) => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text), "a URL like postgres://user@host:5432/name")
  .nullable();
const httpUrl = z
  .string()
  .refine((text) => /^https?:\/\//.test(text) && URL.canParse(text), "a URL like https://host/path")
  .nullable();
const whole = (min: number, max: number) =>
  z
    .string()
    .refine((text) => /^\d{1,9}$/.test(text), `a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, `a whole number from ${min} to ${max}`);
const oneOf = <T extends string>(...values: readonly [T, ...T[]]) => z.enum(values, `one of ${values.join(", ")}`);
const yesNo = oneOf("1", "0", "true", "false").transform((text) => text === "1" || text === "true");

/** Every setting: the field it fills, what it means, its default as it would be written, and what it may be. */
const SETTINGS = {
  DATABASE_URL: {
    field: "databaseUrl",
    about: "Postgres 14 or newer. Without it only `perdure dev` runs, on a Postgres of its own.",
    default: null,
    schema: postgresUrl,
  },
  PERDURE_LISTEN_URL: {
    field: "listenUrl",
    about: "A direct connection for LISTEN, when DATABASE_URL is a pooler in transaction mode.",
    default: null,
    schema: postgresUrl,
  },
  PERDURE_BODIES: {
    field: "bodies",
    about: "Where message bodies live: s3://bucket/prefix or file:///path.",
    default: null,
    schema: z
      .string()
      .refine((text) => /^(s3:\/\/[^/]+|file:\/\/\/)/.test(text), "s3://bucket/prefix or file:///path")
      .nullable(),
  },
  PERDURE_S3_FORCE_PATH_STYLE: {
    field: "s3ForcePathStyle",
    about: "Address buckets by path instead of by host name, as MinIO and Ceph want it.",
    default: "false",
    schema: yesNo,
  },
  PERDURE_S3_CHECKSUMS: {
    field: "s3Checksums",
    about: "Send a checksum with every upload, as buckets with object lock want it; some servers refuse that with 501.",
    default: "false",
    schema: yesNo,
  },
  PERDURE_SECRET_KEY: {
    field: "secretKey",
    about:
      "A key of 32 bytes in hex or base64: what goes to the object store and credentials of channels are encrypted with it.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_OLD_SECRET_KEYS: {
    field: "oldSecretKeys",
    about: "Former secret keys, separated by commas, for what was encrypted with them.",
    default: null,
    schema: z
      .string()
      .nullable()
      .transform((text) => text?.split(",").map((key) => key.trim()) ?? []),
  },
  HOST: { field: "host", about: "The address the API listens on.", default: "127.0.0.1", schema: z.string().min(1) },
  PORT: {
    field: "port",
    about: "The port the API listens on; 0 takes a free one.",
    default: "2024",
    schema: whole(0, 65_535),
  },
  PERDURE_LEASE_MS: {
    field: "leaseMs",
    about: "How long a worker owns a run without a heartbeat; a dead worker's run waits about this long.",
    default: "15000",
    schema: whole(500, 3_600_000),
  },
  PERDURE_POLL_MS: {
    field: "pollMs",
    about: "How often loops look for work when no notification wakes them.",
    default: "2000",
    schema: whole(20, 600_000),
  },
  PERDURE_MOVE_AFTER_MS: {
    field: "moveAfterMs",
    about: "How long bodies of a run that goes on stay in Postgres before they move to the object store.",
    default: "30000",
    schema: whole(0, 86_400_000),
  },
  PERDURE_MAX_BLOCK_MS: {
    field: "maxBlockMs",
    about: "How long a graph may block the event loop before its worker stops renewing leases.",
    default: "60000",
    schema: whole(1_000, 86_400_000),
  },
  PERDURE_CONCURRENCY: {
    field: "concurrency",
    about: "Runs that one worker executes at a time.",
    default: null,
    schema: whole(1, 10_000).nullable(),
  },
  PERDURE_DB_POOL: {
    field: "dbPool",
    about: "Most connections to Postgres per process.",
    default: "10",
    schema: whole(2, 1_000),
  },
  PERDURE_PREVIEWS: {
    field: "previews",
    about: "Whether masked previews of at most 200 characters are kept in Postgres.",
    default: "on",
    schema: oneOf("on", "off").transform((text) => text === "on"),
  },
  TELEGRAM_API_ROOT: {
    field: "telegramApiRoot",
    about:
      "Where Telegram's Bot API is, for accounts that don't say: a server of one's own, or a stand-in. Usually https://api.telegram.org.",
    default: null,
    schema: httpUrl,
  },
  WHATSAPP_API_ROOT: {
    field: "whatsappApiRoot",
    about:
      "Where Meta's Graph API is, for accounts that don't say: a server of one's own, or a stand-in. Usually https://graph.facebook.com.",
    default: null,
    schema: httpUrl,
  },
  SLACK_API_ROOT: {
    field: "slackApiRoot",
    about:
      "Where Slack's Web API is, for accounts that don't say: a server of one's own, or a stand-in. Usually https://slack.com/api.",
    default: null,
    schema: httpUrl,
  },
  PERDURE_SHORTEST_RECURRENCE_MS: {
    field: "shortestRecurrenceMs",
    about: "How far apart the times of a schedule are at least.",
    default: String(OUTREACH_LIMITS.shortestMs),
    schema: whole(60_000, 86_400_000),
  },
  PERDURE_OUTREACH_PER_DAY: {
    field: "outreachPerDay",
    about: "Messages of schedules that one person gets within 24 hours, at most.",
    default: String(OUTREACH_LIMITS.perDay),
    schema: whole(1, 1_000),
  },
  PERDURE_OUTREACH_RUNNING: {
    field: "outreachRunning",
    about: "Runs that work for schedules at a time, over all workers; the other slots are left to people who write.",
    default: String(OUTREACH_LIMITS.running),
    schema: whole(1, 10_000),
  },
  PERDURE_FOLLOWUPS_PER_THREAD: {
    field: "followupsPerThread",
    about: "Follow-ups that are open at a time on one thread.",
    default: String(FOLLOWUP_LIMITS.perThread),
    schema: whole(0, 100_000),
  },
  PERDURE_FOLLOWUPS_PER_TENANT: {
    field: "followupsPerTenant",
    about: "Follow-ups that are open at a time, over all threads.",
    default: String(FOLLOWUP_LIMITS.perTenant),
    schema: whole(0, 10_000_000),
  },
  PERDURE_FOLLOWUP_SHORTEST_MS: {
    field: "followupShortestMs",
    about: "How soon a follow-up may be, at the soonest.",
    default: String(FOLLOWUP_LIMITS.shortestMs),
    schema: whole(0, 86_400_000),
  },
  PERDURE_FOLLOWUP_HORIZON_DAYS: {
    field: "followupHorizonDays",
    about: "How many days ahead a follow-up may be.",
    default: String(FOLLOWUP_LIMITS.horizonMs / 86_400_000),
    schema: whole(1, 3_650),
  },
  PERDURE_FOLLOWUP_DEPTH: {
    field: "followupDepth",
    about: "Follow-ups that follow-ups schedule in a row, until the person writes.",
    default: String(FOLLOWUP_LIMITS.depth),
    schema: whole(1, 1_000),
  },
  PERDURE_WEBHOOK_SECRET: {
    field: "webhookSecrets",
    about:
      "What completion webhooks are signed with: whsec_ and 24 to 64 bytes in base64; two, separated by a space, while one takes the other's place. Without it they aren't signed.",
    default: null,
    schema: z
      .string()
      .nullable()
      .transform((text) => text?.split(" ").filter((part) => part !== "") ?? []),
  },
  PERDURE_WEBHOOK_PRIVATE: {
    field: "webhookPrivate",
    about: "Whether completion webhooks may lead into private networks: only where nobody you don't trust makes runs.",
    default: "off",
    schema: oneOf("on", "off").transform((text) => text === "on"),
  },
  PERDURE_AUTH: {
    field: "auth",
    about:
      "Who is let in. `on`, unless given: who has a key, a token or is known to auth.path. `off`: everybody who reaches the API, to everything. `dev`: everybody without auth.path, and with it LangGraph Studio, too.",
    default: null,
    schema: oneOf("on", "off", "dev").nullable(),
  },
  PERDURE_JWT_JWKS_URL: {
    field: "jwtJwksUrl",
    about: "Where the keys are that tokens (JWT) are checked with. Needs an issuer and an audience.",
    default: null,
    schema: httpUrl,
  },
  PERDURE_JWT_ISSUER: {
    field: "jwtIssuer",
    about: "Who issues them: their `iss`.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_JWT_AUDIENCE: {
    field: "jwtAudience",
    about: "For whom they must be: their `aud`. `*`: for whomever the issuer issues any.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_JWT_TENANT_CLAIM: {
    field: "jwtTenantClaim",
    about: "The claim that names the tenant, which is made when it comes for the first time. Without it there is one.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_JWT_PERMISSIONS_CLAIM: {
    field: "jwtPermissionsClaim",
    about:
      "The claim that lists what they may do: `permissions` for auth.path, and without that scopes as keys have them.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_IDENTITY_HEADERS: {
    field: "identityHeaders",
    about:
      "Whether X-Perdure-Person and X-Perdure-Roles say who asks: only where a proxy in front sets them, whatever the client sends.",
    default: "off",
    schema: oneOf("on", "off").transform((text) => text === "on"),
  },
  PERDURE_TEST_ROUTES: {
    field: "testRoutes",
    about:
      "Whether POST /internal/truncate deletes all threads, assistants and items: for suites of tests, never for people's.",
    default: "off",
    schema: oneOf("on", "off").transform((text) => text === "on"),
  },
  PERDURE_ADOPT_FROM: {
    field: "adoptFrom",
    about:
      "Where LangGraph's PostgresSaver has threads that come over when they are first touched: a schema, or a Postgres URL with the schema after #.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_ADOPT_GRAPH: {
    field: "adoptGraph",
    about: "Which graph those threads are of; needed when there are several.",
    default: null,
    schema: z.string().nullable(),
  },
  LANGGRAPH_CONFIG: {
    field: "langgraphConfig",
    about: "What graphs' own assistants are configured with: JSON, by graph, with configurable and context.",
    default: null,
    schema: z.string().nullable(),
  },
  PERDURE_API_URL: {
    field: "apiUrl",
    about:
      "Where the API is, for workers: they tell webhooks like /path there. Without it they answer them themselves, with the routes of http.app.",
    default: null,
    schema: httpUrl,
  },
  PERDURE_LOG_LEVEL: {
    field: "logLevel",
    about: "What is logged; at debug, errors of commands show their stack.",
    default: "info",
    schema: oneOf("debug", "info", "warn", "error", "silent"),
  },
} as const satisfies Record<
  string,
  Readonly<{ field: keyof Config; about: string; default: string | null; schema: z.ZodType }>
>;

export type Env = Readonly<Record<string, string | undefined>>;

/**
 * Parses the environment; throws `config_invalid` naming every bad or unknown key and what is allowed.
 * An empty value counts as not set.
 */
export function readConfig(env: Env = process.env): Config {
  const problems: string[] = [];
  const names = Object.keys(SETTINGS);
  for (const name of Object.keys(env)) {
    // PERDURE_TEST_* belongs to test set-ups, whose processes hand their environment on.
    if (!name.startsWith("PERDURE_") || name.startsWith("PERDURE_TEST_") || names.includes(name)) continue;
    const guess = nearest(name, names);
    problems.push(`${name} is not a setting${guess === null ? "" : `; did you mean ${guess}?`}`);
  }
  const fields: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(SETTINGS)) {
    const given = env[name];
    const parsed = setting.schema.safeParse(given === undefined || given === "" ? setting.default : given);
    if (parsed.success) fields[setting.field] = parsed.data;
    else problems.push(`${name} must be ${parsed.error.issues[0]?.message ?? "something else"}`);
  }
  if (problems.length > 0) throw new EngineError("config_invalid", problems.join("\n"), { details: { problems } });
  // Every field is filled: the table above names each field of Config, and a test compares them.
  return Object.freeze(fields) as Config;
}

/** The same with variables of a project's own, where the environment has none: the environment wins. */
export function readConfigWith(project: Env): Config {
  return readConfig({ ...project, ...process.env });
}

/** Sets variables that the environment doesn't have yet, for graphs and SDKs that read them. */
export function addToEnvironment(values: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(values)) process.env[name] ??= value;
}

const VARIABLE = /\$\{\{\s*env\.(\w+)\s*\}\}/g;

/**
 * Texts with `${{ env.NAME }}` filled in, from the environment or else the project's own. Throws `config_invalid` for one that isn't set, or
 * whose name doesn't begin as those that may be sent out do.
 */
export function filledIn(
  texts: Readonly<Record<string, string>>,
  { env, prefix, at }: Readonly<{ env: Env; prefix: string; at: string }>,
): Readonly<Record<string, string>> {
  const valueOf = (key: string, name: string): string => {
    const value = process.env[name] ?? env[name];
    if (name.startsWith(prefix) && value !== undefined) return value;
    const why = name.startsWith(prefix) ? "isn't set" : `must begin with ${prefix}`;
    throw new EngineError("config_invalid", `${at}.${key}: the variable ${name} ${why}`);
  };
  const fill = (key: string, text: string) => text.replace(VARIABLE, (_, name: string) => valueOf(key, name));
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, fill(key, text)]));
}

/** The environment for a child process: ours, with some variables set. */
export function environmentWith(values: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { ...process.env, ...values };
}

/** Every setting in a line: name, default, meaning. For help texts and docs/configuration.md. */
export function describeSettings(): readonly Readonly<{ name: string; default: string | null; about: string }>[] {
  return Object.entries(SETTINGS).map(([name, { about, default: fallback }]) => ({ name, about, default: fallback }));
}
