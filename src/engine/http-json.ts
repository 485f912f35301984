// `http` of a langgraph.json: routes of the project's own, who may call from browsers, and what isn't served.
// https://docs.langchain.com/langsmith/cli#configuration-file
import { z } from "zod";
import { nearest } from "../core/nearest.js";
import { type ModuleSource, moduleSource } from "./module-source.js";

/** What can be turned off, each as `disable_…`. */
const SURFACES = ["assistants", "threads", "runs", "store", "meta", "mcp", "a2a", "ui", "webhooks"] as const;
export type Surface = (typeof SURFACES)[number];

/** Which pages may call, and what they may send and see. */
export type CorsRules = Readonly<{
  /** `*`: any. */
  origins: readonly string[];
  /** Of whole origins, besides those. */
  originPattern: RegExp | null;
  /** Null: all that there are. */
  methods: readonly string[] | null;
  /** Null: what the page asks for. */
  headers: readonly string[] | null;
  credentials: boolean;
  /** Besides those that stock clients need. */
  expose: readonly string[];
  maxAgeSeconds: number | null;
}>;

/** Any page, without credentials; those of the rules; or nothing is said of it: that is left to whoever serves the app. */
export type Cors = "any" | CorsRules | "unsaid";

/** Which request headers graphs find in their configuration: patterns of whole names in lower case. */
export type HeaderRules = Readonly<{ includes: readonly RegExp[]; excludes: readonly RegExp[] }>;

export type HttpSettings = Readonly<{
  /** The project's own apps, the one without a prefix first. */
  apps: readonly Readonly<{ prefix: string; source: ModuleSource }>[];
  cors: Cors;
  /** Whether the app's middleware sees only who was let in. */
  authFirst: boolean;
  /** Whether the app's routes are only for who was let in. */
  customRouteAuth: boolean;
  /** Like "/agents"; "" for none. */
  mountPrefix: string;
  configurableHeaders: HeaderRules;
  disabled: ReadonlySet<Surface>;
}>;

/** Where nothing is said of it. */
export const PLAIN_HTTP: HttpSettings = {
  apps: [],
  cors: "any",
  authFirst: true,
  customRouteAuth: true,
  mountPrefix: "",
  configurableHeaders: { includes: [], excludes: [] },
  disabled: new Set(),
};

const names = z.array(z.string().min(1));
const flag = z.boolean().nullish();
const prefix = z.string().regex(/^\/[^?#*:]+$/, "must be like /agents");
const regex = z.string().refine(isPattern, "must be a regular expression");
const header = z.looseObject({
  includes: names.nullish(),
  excludes: names.nullish(),
  // As they were called first.
  include: names.nullish(),
  exclude: names.nullish(),
});
const cors = z.looseObject({
  allow_origins: names.nullish(),
  allow_origin_regex: regex.nullish(),
  allow_methods: names.nullish(),
  allow_headers: names.nullish(),
  allow_credentials: flag,
  expose_headers: names.nullish(),
  max_age: z.int().min(0).nullish(),
});
export const httpShape = z.looseObject({
  app: z.string().min(1).nullish(),
  apps: z.record(prefix, z.string().min(1)).nullish(),
  cors: cors.nullish(),
  middleware_order: z.enum(["auth_first", "middleware_first"]).nullish(),
  enable_custom_route_auth: flag,
  mount_prefix: prefix.nullish(),
  configurable_headers: header.nullish(),
  logging_headers: z.unknown().optional(),
  disable_assistants: flag,
  disable_threads: flag,
  disable_runs: flag,
  disable_store: flag,
  disable_meta: flag,
  disable_mcp: flag,
  disable_a2a: flag,
  disable_ui: flag,
  disable_webhooks: flag,
});
export type HttpJson = z.output<typeof httpShape>;

export async function httpOf(given: HttpJson | null | undefined, dir: string): Promise<HttpSettings> {
  const http: HttpJson = given ?? {};
  const { app, configurable_headers: headers } = http;
  const apps = [...(app ? [["", app] as const] : []), ...Object.entries(http.apps ?? {})];
  return {
    apps: await Promise.all(
      apps.map(async ([at, spec]) => ({ prefix: at.replace(/\/+$/, ""), source: await moduleSource(dir, spec) })),
    ),
    cors: http.cors ? corsOf(http.cors) : "any",
    authFirst: http.middleware_order !== "middleware_first",
    customRouteAuth: http.enable_custom_route_auth ?? true,
    mountPrefix: (http.mount_prefix ?? "").replace(/\/+$/, ""),
    configurableHeaders: {
      includes: patternsOf([...(headers?.includes ?? []), ...(headers?.include ?? [])]),
      excludes: patternsOf([...(headers?.excludes ?? []), ...(headers?.exclude ?? [])]),
    },
    disabled: new Set(SURFACES.filter((surface) => http[`disable_${surface}`] === true)),
  };
}

/** What is misspelt: a key that nearly is one of those there are would leave open what somebody meant to close. */
export function httpProblems(given: HttpJson | null | undefined): string[] {
  return unknownKeys(given).flatMap(({ key, guess }) =>
    guess === null ? [] : [`"${key}" is not a setting; did you mean "${guess}"?`],
  );
}

/** What has no effect here. */
export function httpWarnings(given: HttpJson | null | undefined): string[] {
  const unknown = unknownKeys(given).flatMap(({ key, guess }) => (guess === null ? [`"${key}" is not known and`] : []));
  const unserved =
    (given?.logging_headers ?? null) === null ? [] : ['"http.logging_headers": no headers are logged; it'];
  return [...unknown, ...unserved].map((what) => `${what} has no effect`);
}

function unknownKeys(given: HttpJson | null | undefined): Readonly<{ key: string; guess: string | null }>[] {
  const places = [
    ["http", given, httpShape],
    ["http.cors", given?.cors, cors],
    ["http.configurable_headers", given?.configurable_headers, header],
  ] as const;
  return places.flatMap(([at, value, shape]) => {
    const known = Object.keys(shape.shape);
    const unknown = Object.keys(value ?? {}).filter((key) => !known.includes(key));
    return unknown.map((key) => {
      const guess = nearest(key, known);
      return { key: `${at}.${key}`, guess: guess === null ? null : `${at}.${guess}` };
    });
  });
}

function corsOf(given: NonNullable<HttpJson["cors"]>): CorsRules {
  const pattern = given.allow_origin_regex;
  return {
    origins: given.allow_origins ?? (pattern ? [] : ["*"]),
    originPattern: pattern ? new RegExp(`^(?:${pattern})$`) : null,
    methods: allOr(given.allow_methods),
    headers: allOr(given.allow_headers),
    credentials: given.allow_credentials ?? false,
    expose: given.expose_headers ?? [],
    maxAgeSeconds: given.max_age ?? null,
  };
}

const allOr = (given: readonly string[] | null | undefined): readonly string[] | null =>
  !given || given.includes("*") ? null : given;

/** Of names, or parts of them with `*`. */
function patternsOf(names: readonly string[]): RegExp[] {
  return names.map((name) => {
    const parts = name.split("*").map((part) => part.toLowerCase().replaceAll(/[^\w-]/g, "\\$&"));
    return new RegExp(`^${parts.join(".*")}$`);
  });
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text) !== null;
  } catch {
    return false;
  }
}
