// langgraph.json as the LangGraph CLI reads it: which graphs there are and what environment they want.
// What other tools put there is left alone and named in a warning when it has no effect here; under our own key
// "perdure" an unknown key is refused.
import { readFile } from "node:fs/promises";
import path from "node:path";
import { parseEnv } from "node:util";
import { z } from "zod";
import { EngineError } from "../core/errors.js";
import { nearest } from "../core/nearest.js";
import { type ApprovalDefaults, defaultsOf, projectApprovals } from "./approval-policy.js";
import type { PolicyOf } from "../core/policy.js";
import { type HttpSettings, httpOf, httpProblems, httpShape, httpWarnings } from "./http-json.js";
import { type ModuleSource, moduleSource } from "./module-source.js";
import { PRUNED_OUTCOMES, type Retention } from "../core/retention.js";
import { type ThreadTtl, TTL_STRATEGIES } from "../core/thread-ttl.js";
import { duration, maxRunning, policiesOf, POLICY_SHAPE } from "./policy-json.js";
import { indexOf, type NamedIndex, type StoreTtl, storeShape, ttlOf, unservedOfStore } from "./store-json.js";
import { type ProjectWebhooks, webhooksOf, webhooksShape } from "./webhook-json.js";

/** Where a graph is. */
export type GraphSource = ModuleSource & Readonly<{ id: string; description: string | null }>;

/** Components that a graph's runs name for the client to show (`ui` and `ui_config`). */
export type ProjectUi = Readonly<{
  /** By graph, as they stand there: relative to the project. */
  files: Readonly<Record<string, string>>;
  /** Packages that the client's page has, too. */
  shared: readonly string[];
}>;

/** Our own settings, under the key "perdure". */
export type ProjectSettings = Readonly<{
  /** Runs that one worker executes at a time; `--concurrency` and PERDURE_CONCURRENCY come first. */
  concurrency?: number | undefined;
  /** Runs of each tenant that are executed at a time, over all workers, where `perdure limits` doesn't say. */
  maxRunningPerTenant: number | null;
  /** What is kept, and how long; null: everything, for ever. */
  retention: Retention | null;
  /** Of threads that clients make without saying how long they are kept (`checkpointer.ttl`); null: for ever. */
  threadTtl: ThreadTtl | null;
  approvals: ApprovalDefaults;
  /** How the runs of each graph are treated when something goes wrong. */
  policyOf: PolicyOf;
}>;

export type Project = Readonly<{
  /** The file, absolute. */
  path: string;
  dir: string;
  graphs: readonly GraphSource[];
  env: Readonly<Record<string, string>>;
  /** The file `env` names, absolute, to be watched. */
  envFile: string | null;
  storeTtl: StoreTtl | null;
  /** What items of the store are found by; null: by words. */
  storeIndex: NamedIndex | null;
  /** Where the `Auth` is that says who requests are of, and what they may; null: there is none. */
  auth: Readonly<{ source: ModuleSource; disableStudio: boolean }> | null;
  webhooks: ProjectWebhooks;
  http: HttpSettings;
  ui: ProjectUi;
  /** Where channels of its own are. */
  channels: readonly ModuleSource[];
  settings: ProjectSettings;
  warnings: readonly string[];
}>;

const graph = z.union(
  [z.string(), z.object({ path: z.string(), description: z.string().nullish() })],
  "must be a path like ./agent.ts:graph, or {path, description}",
);
const strings = z.array(z.string());
const retention = z
  .object({
    checkpoints: z
      .object({
        keepLatest: z.int().min(1).max(1_000_000).optional(),
        olderThan: duration.optional(),
        outcomes: z.array(z.enum(PRUNED_OUTCOMES)).min(1).optional(),
        graphs: z.array(z.string()).min(1).optional(),
      })
      .strict()
      .refine((policy) => policy.keepLatest !== undefined || policy.olderThan !== undefined, {
        message: 'must say what to keep: "keepLatest", "olderThan" or both',
      })
      .optional(),
    runs: z.object({ olderThan: duration }).strict().optional(),
  })
  .strict();
const SCHEMA = z.object({
  graphs: z.record(z.string(), graph, 'must name the graphs, like {"agent": "./agent.ts:graph"}'),
  env: z
    .union(
      [z.string(), z.record(z.string(), z.string()), strings],
      "must be a file's name, an object of strings, or a list of NAME=value",
    )
    .default({}),
  node_version: z.union([z.string(), z.number()]).nullish(),
  dependencies: strings.nullish(),
  dockerfile_lines: strings.nullish(),
  store: storeShape.nullish(),
  checkpointer: z
    .object({
      ttl: z
        .object({
          strategy: z.enum(TTL_STRATEGIES).nullish(),
          default_ttl: z.number().positive().nullish(),
          sweep_interval_minutes: z.number().positive().nullish(),
        })
        .nullish(),
    })
    .loose()
    .nullish(),
  auth: z.object({ path: z.string().min(1).optional(), disable_studio_auth: z.boolean().optional() }).nullish(),
  http: httpShape.nullish(),
  ui: z.record(z.string(), z.string().min(1)).nullish(),
  ui_config: z.object({ shared: strings.nullish() }).nullish(),
  webhooks: webhooksShape.nullish(),
  perdure: z
    .object({
      concurrency: z.int().min(1).max(10_000).optional(),
      maxRunningPerTenant: maxRunning.optional(),
      retention: retention.optional(),
      approvals: projectApprovals.optional(),
      channels: z.array(z.string().min(1)).optional(),
      ...POLICY_SHAPE,
      graphs: z.record(z.string(), z.object(POLICY_SHAPE).strict()).optional(),
    })
    .strict()
    .default({}),
});
type Raw = z.infer<typeof SCHEMA>;

// Keys of the LangGraph CLI's schema that say how an image is built or deployed: nothing for a running engine.
const BUILD_KEYS = [
  "$schema",
  "version",
  "base_image",
  "image_distro",
  "api_version",
  "docker_compose_file",
  "keep_pkg_tools",
  "pip_config_file",
  "pip_installer",
  "python_version",
  "_INTERNAL_docker_tag",
];
const UNSERVED_KEYS = ["encryption"];
const KNOWN_KEYS = [...Object.keys(SCHEMA.shape), ...BUILD_KEYS, ...UNSERVED_KEYS];

/** By the place they stand in. */
const OUR_KEYS: Readonly<Record<string, readonly string[]>> = {
  perdure: Object.keys(SCHEMA.shape.perdure.def.innerType.shape),
  "perdure.approvals": Object.keys(projectApprovals.shape),
  "perdure.timeouts": Object.keys(POLICY_SHAPE.timeouts.def.innerType.shape),
  "perdure.budgets": Object.keys(POLICY_SHAPE.budgets.def.innerType.shape),
  "perdure.retention": Object.keys(retention.shape),
  "perdure.retention.checkpoints": Object.keys(retention.shape.checkpoints.def.innerType.shape),
  "perdure.retention.runs": Object.keys(retention.shape.runs.def.innerType.shape),
};

/**
 * Reads and checks a langgraph.json; throws `config_invalid` listing every problem.
 *
 * @example const project = await readProject("langgraph.json");
 */
export async function readProject(file: string): Promise<Project> {
  const absolute = path.resolve(file);
  const dir = path.dirname(absolute);
  const raw = parse(absolute, await readText(absolute));
  const envFile = typeof raw.env === "string" ? path.resolve(dir, raw.env) : null;
  return {
    path: absolute,
    dir,
    graphs: await Promise.all(Object.entries(raw.graphs).map(([id, entry]) => graphSource(dir, id, entry))),
    env: await readEnv(raw.env, envFile),
    envFile,
    storeTtl: ttlOf(raw.store),
    storeIndex: await indexOf(dir, raw.store),
    auth: await authOf(dir, raw.auth),
    webhooks: webhooksOf(raw.webhooks),
    http: await httpOf(raw.http, dir),
    ui: { files: raw.ui ?? {}, shared: raw.ui_config?.shared ?? [] },
    channels: await Promise.all((raw.perdure.channels ?? []).map((spec) => moduleSource(dir, spec))),
    settings: {
      concurrency: raw.perdure.concurrency,
      maxRunningPerTenant: raw.perdure.maxRunningPerTenant ?? null,
      retention: retentionOf(raw.perdure.retention),
      threadTtl: threadTtlOf(raw.checkpointer?.ttl),
      approvals: defaultsOf(raw.perdure.approvals ?? {}),
      policyOf: policiesOf(raw.perdure, raw.perdure.graphs ?? {}),
    },
    warnings: warnings(raw),
  };
}

function threadTtlOf(given: NonNullable<Raw["checkpointer"]>["ttl"]): ThreadTtl | null {
  const minutes = given?.default_ttl ?? null;
  return minutes === null ? null : { minutes, strategy: given?.strategy ?? "delete" };
}

async function authOf(dir: string, given: Raw["auth"]): Promise<Project["auth"]> {
  if (given?.path === undefined) return null;
  const disableStudio = given.disable_studio_auth ?? false;
  return { source: await moduleSource(dir, given.path), disableStudio };
}

function retentionOf(given: Raw["perdure"]["retention"]): Retention | null {
  if (given === undefined) return null;
  const { checkpoints, runs } = given;
  return {
    checkpoints: checkpoints
      ? {
          keepLatest: checkpoints.keepLatest ?? 1,
          olderThanMs: checkpoints.olderThan ?? null,
          outcomes: checkpoints.outcomes ?? null,
          graphIds: checkpoints.graphs ?? null,
        }
      : null,
    runs: runs ? { olderThanMs: runs.olderThan } : null,
  };
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const what = code === "ENOENT" ? "there is no such file" : `it can't be read (${code ?? "unknown error"})`;
    throw new EngineError("config_invalid", `${file}: ${what}; give another with --config <file>`, { cause });
  }
}

function parse(file: string, text: string): Raw & Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new EngineError("config_invalid", `${file} is not JSON: ${(cause as Error).message}`, { cause });
  }
  const parsed = SCHEMA.loose().safeParse(json);
  const problems = parsed.success
    ? [...graphProblems(parsed.data), ...httpProblems(parsed.data.http), ...uiProblems(parsed.data)]
    : parsed.error.issues.map(describeIssue);
  if (!parsed.success || problems.length > 0) {
    const lines = problems.map((problem) => `${file}: ${problem}`);
    throw new EngineError("config_invalid", lines.join("\n"), { details: { problems } });
  }
  return parsed.data;
}

function graphProblems(raw: Raw): string[] {
  const unknown = Object.keys(raw.perdure.graphs ?? {}).filter((id) => !Object.hasOwn(raw.graphs, id));
  if (unknown.length > 0) return unknown.map((id) => noSuchGraph(id, Object.keys(raw.graphs)));
  const entries = Object.entries(raw.graphs);
  if (entries.length === 0) return ['"graphs" is empty; name a graph, like {"agent": "./agent.ts:graph"}'];
  return entries.flatMap(([id, entry]) => {
    const spec = typeof entry === "string" ? entry : entry.path;
    if (id === "" || id.length > 200 || /[\u0000-\u001f]/.test(id)) {
      return [`graph ${JSON.stringify(id)}: an id has 1 to 200 characters and no control characters`];
    }
    if (/\.py(:|$)/.test(spec)) {
      return [`graph "${id}": ${spec} is Python; perdure runs graphs in JavaScript and TypeScript`];
    }
    return spec === "" ? [`graph "${id}": the path is empty; write it like ./agent.ts:graph`] : [];
  });
}

function uiProblems({ ui }: Raw): string[] {
  // Their folder and their global in the page are named after it.
  const wrong = Object.keys(ui ?? {}).filter((id) => !/^[\w.-]+$/.test(id));
  return wrong.map((id) => `"ui" names ${JSON.stringify(id)}: letters, digits, ".", "_" and "-" can stand in a name`);
}

function noSuchGraph(id: string, ids: readonly string[]): string {
  const guess = nearest(id, ids);
  return `"perdure.graphs" names ${JSON.stringify(id)}, which "graphs" doesn't have${guess === null ? "" : `; did you mean "${guess}"?`}`;
}

function describeIssue(issue: z.core.$ZodIssue): string {
  const at = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys
      .map((key) => {
        // What may stand for all graphs may stand for one.
        const guess = nearest(key, OUR_KEYS[at] ?? OUR_KEYS[at.replace(/^(perdure)\.graphs\.[^.]+/, "$1")] ?? []);
        return `"${at}.${key}" is not a setting${guess === null ? "" : `; did you mean "${at}.${guess}"?`}`;
      })
      .join("; ");
  }
  const message = issue.code === "invalid_key" ? issue.issues[0]?.message : undefined;
  return `"${at === "" ? "(the whole file)" : at}": ${message ?? issue.message}`;
}

async function graphSource(dir: string, id: string, entry: Raw["graphs"][string]): Promise<GraphSource> {
  const { path: spec, description = null } = typeof entry === "string" ? { path: entry } : entry;
  return { id, description, ...(await moduleSource(dir, spec)) };
}

async function readEnv(env: Raw["env"], envFile: string | null): Promise<Readonly<Record<string, string>>> {
  if (typeof env !== "string" && !Array.isArray(env)) return env;
  if (envFile === null || Array.isArray(env)) {
    // A list names variables, as compose files do: "NAME=value", or a bare NAME that is passed through as it is.
    const lines = Array.isArray(env) ? env.filter((line) => line.includes("=")) : [];
    return parseEnv(lines.join("\n")) as Readonly<Record<string, string>>;
  }
  try {
    return parseEnv(await readFile(envFile, "utf8")) as Readonly<Record<string, string>>;
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new EngineError("config_invalid", `"env" names ${envFile}, which can't be read (${code})`, { cause });
  }
}

function warnings(raw: Raw & Record<string, unknown>): string[] {
  const found: string[] = [];
  for (const key of Object.keys(raw)) {
    if (KNOWN_KEYS.includes(key)) continue;
    const guess = nearest(key, KNOWN_KEYS);
    found.push(`"${key}" is not known and has no effect${guess === null ? "" : `; did you mean "${guess}"?`}`);
  }
  const wanted = Number.parseInt(String(raw.node_version ?? ""), 10);
  const have = Number.parseInt(process.versions.node, 10);
  if (wanted > have) found.push(`"node_version" asks for Node ${wanted}; this is Node ${have}`);
  const unserved = UNSERVED_KEYS.filter((key) => raw[key] !== undefined && raw[key] !== null);
  unserved.push(...unservedOfStore(raw.store));
  for (const key of Object.keys(raw.checkpointer ?? {})) if (key !== "ttl") unserved.push(`checkpointer.${key}`);
  if ((raw.checkpointer?.ttl?.sweep_interval_minutes ?? null) !== null)
    found.push('"checkpointer.ttl.sweep_interval_minutes" is not needed: each thread has a timer of its own');
  for (const key of unserved) found.push(`"${key}" has no effect in this version of perdure`);
  found.push(...httpWarnings(raw.http));
  return found;
}
