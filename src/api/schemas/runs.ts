// Request bodies and queries of the run routes. Every field a stock client knows has an effect here or is refused by name.
import { z } from "zod";
import type { RunId, ThreadId } from "../../core/ids.js";
import { PRIORITY_NAMES } from "../../core/run.js";
import { STREAM_MODES } from "../../engine/stream/plan.js";
import { fields, flag, integer, list, one, texts } from "../request.js";
import { absent, checkpoint, jsonObject, noTracer, object, text, ttl, uuid } from "./parts.js";

/** Anything: what is content travels as it is. */
const anything = z.unknown();

/** What a request says to the engine and not to the graph, where stock clients let it pass. */
const ownSettings = z.object({ priority: absent(z.enum(PRIORITY_NAMES)) }).strict();
const OWN_KEY = "perdure";

/** What `config.configurable.perdure` says, once the request was parsed. */
export function ownSettingsOf({ config }: RunCreate): z.output<typeof ownSettings> {
  return ownSettings.parse(config?.configurable?.[OWN_KEY] ?? {});
}

const configurable = object.superRefine((value, context) => {
  const own = ownSettings.safeParse(value[OWN_KEY] ?? {});
  for (const { path, message } of own.error?.issues ?? [])
    context.addIssue({ code: "custom", path: [OWN_KEY, ...path], message });
  for (const key of Object.keys(value).filter((name) => name.startsWith("__"))) {
    context.addIssue({ code: "custom", path: [key], message: "keys that start with __ belong to the engine" });
  }
  // Where a checkpoint may be named too. The thread is the path's, whatever stands here.
  const { checkpoint_id, checkpoint_ns, checkpoint_map } = value;
  const named = checkpoint.safeParse({ checkpoint_id, checkpoint_ns, checkpoint_map });
  for (const { path, message } of named.error?.issues ?? []) context.addIssue({ code: "custom", path, message });
});

const config = z.object({
  tags: absent(z.array(z.string())),
  recursion_limit: absent(z.number().int().min(1).max(1_000_000)),
  configurable: absent(configurable),
  metadata: absent(jsonObject),
});

const sendTarget = z.object({ node: z.string(), input: anything.optional() });
const target = z.union([z.string(), sendTarget], "must be a node's name or {node, input}");

export const command = z
  .object({
    resume: anything.optional(),
    update: absent(
      z.union([object, z.array(z.tuple([z.string(), anything]))], "must be an object or a list of [key, value]"),
    ),
    goto: absent(z.union([target, z.array(target)], "must be a node's name, {node, input} or a list of them")),
  })
  // It would close open questions and do nothing.
  .refine(({ resume, update, goto }) => {
    const goes = Array.isArray(goto) ? goto.length > 0 : goto !== undefined;
    return (resume !== undefined && resume !== null) || update !== undefined || goes;
  }, "says nothing; give resume, update or goto, and null as an answer by interrupt id");

const nodes = z.union([z.literal("*"), z.array(z.string())], 'must be "*" or a list of node names');

const streamMode = z.enum(STREAM_MODES, `must be one of ${STREAM_MODES.join(", ")}`);
const streamModes = z
  .union([streamMode.transform((mode) => [mode]), z.array(streamMode)], {
    error: () => `must be one or more of ${STREAM_MODES.join(", ")}`,
  })
  .transform((modes) => (modes.length === 0 ? (["values"] as const) : modes));

/**
 * States are stored at every step, so that no crash costs more than one: who asks for less gets more. With `exit` those on the way go once
 * the run is over, as they would never have been there.
 */
const durability = z.enum(["sync", "async", "exit"]);

/** The URLs that would be told are LangSmith's to sign. */
const feedbackKeys = anything
  .refine((value) => value === undefined || value === null || (Array.isArray(value) && value.length === 0), {
    message: "is not supported: the URLs that take feedback are LangSmith's, which this server has nothing to do with",
  })
  .optional();

const shared = {
  assistant_id: text.min(1, "must name an assistant or a graph").max(200),
  input: anything.optional(),
  command: absent(command),
  config: absent(config),
  context: absent(object),
  metadata: absent(jsonObject),
  interrupt_before: absent(nodes),
  interrupt_after: absent(nodes),
  stream_mode: absent(streamModes),
  stream_subgraphs: absent(z.boolean()),
  /** Every stream is stored, so each is resumable. */
  stream_resumable: absent(z.boolean()),
  on_disconnect: absent(z.enum(["cancel", "continue"])),
  multitask_strategy: absent(z.enum(["reject", "enqueue", "interrupt", "rollback"])),
  /** Postgres' and JavaScript's dates end later than ten years from now. */
  after_seconds: absent(z.number().min(0).max(315_360_000)),
  if_not_exists: absent(z.enum(["reject", "create"])),
  durability: absent(durability),
  /** As clients said it before there was `durability`; false is exit. */
  checkpoint_during: absent(z.boolean()),
  strict_resume: absent(
    z.boolean().refine((value) => value, "false is not supported: an answer to a closed question is always refused"),
  ),
  /** Told when the run is over; where it may lead is the installation's to say. */
  webhook: absent(text.min(1)),
  feedback_keys: feedbackKeys,
  langsmith_tracer: noTracer,
  /** Of the run's thread. */
  ttl: absent(ttl),
};

/** What a cron may ask its runs. */
export const CRON_RUN_FIELDS = {
  ...{ assistant_id: shared.assistant_id, input: shared.input, config: shared.config, context: shared.context },
  ...{ metadata: shared.metadata, webhook: shared.webhook, multitask_strategy: shared.multitask_strategy },
  ...{ interrupt_before: shared.interrupt_before, interrupt_after: shared.interrupt_after },
  ...{ stream_mode: shared.stream_mode, stream_subgraphs: shared.stream_subgraphs },
  stream_resumable: shared.stream_resumable,
  durability: absent(durability.exclude(["exit"], 'must be "sync" or "async": the states of a cron\'s runs stay')),
  checkpoint_during: absent(z.literal(true, "must be true: the states of a cron's runs stay")),
};

/** A run on a thread. */
export const runCreate = z.object({
  ...shared,
  checkpoint: absent(checkpoint),
  checkpoint_id: absent(uuid),
  on_completion: absent(
    z.enum(["keep", "delete"]).refine((value) => value === "keep", "delete is for runs without a thread"),
  ),
});

/** A run without a thread: it gets one of its own, which nobody sees. */
export const statelessRunCreate = z
  .object({
    ...shared,
    checkpoint: anything.refine(isAbsent, "needs a thread; this run has none").optional(),
    checkpoint_id: anything.refine(isAbsent, "needs a thread; this run has none").optional(),
    on_completion: absent(z.enum(["keep", "delete"])),
  })
  .refine(({ ttl: given, on_completion: then }) => given === undefined || then === "keep", {
    path: ["ttl"],
    message: "is for a thread that stays, with on_completion: keep",
  });

export const runsCancel = z
  .object({
    thread_id: absent(uuid.transform((id) => id as ThreadId)),
    run_ids: absent(z.array(uuid.transform((id) => id as RunId)).max(1_000)),
    status: absent(z.enum(["pending", "running", "all"])),
  })
  .refine(
    ({ run_ids: ids, status }) => (ids === undefined) !== (status === undefined),
    "must have either run_ids or status",
  );

export const runsCancelHow = z.object({ action: one.pipe(z.enum(["interrupt", "rollback"]).optional()) });

/** Both, as one type: what only one of them has is undefined in the other. */
export type RunCreate = z.output<typeof runCreate> | z.output<typeof statelessRunCreate>;

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

const RUN_STATUS = ["pending", "running", "interrupted", "success", "error", "timeout"] as const;
const RUN_FIELDS = [
  "run_id",
  "thread_id",
  "assistant_id",
  "assistant_version",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "kwargs",
  "multitask_strategy",
  "cancel_reason",
  "ended_by",
] as const;

/** Of the graph and its subgraphs, as events name them: `node:id|node:id`; empty is the graph's own. */
const namespaces = texts.pipe(z.array(z.string().max(10_000)).max(1_000).optional());

export const runList = z.object({
  limit: integer({ min: 1, max: 1_000, fallback: 10 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
  status: one.pipe(z.enum(RUN_STATUS).optional()),
  select: list.pipe(z.array(z.enum(RUN_FIELDS)).optional()),
  /** Contained in the run's. Stock clients don't send it. */
  metadata: fields.pipe(absent(jsonObject)),
});

export const runStreamCreate = z.object({ namespace: namespaces });

export const runStream = z.object({
  stream_mode: list.pipe(z.array(streamMode).optional()),
  cancel_on_disconnect: flag,
  /** For clients that lost their connection before the first event: their next request has no Last-Event-ID. */
  last_event_id: one,
  namespace: namespaces,
  /** The state that the client shows already. */
  checkpoint_id: one.pipe(uuid.optional()),
});

export const runJoin = z.object({ cancel_on_disconnect: flag });

export const runCancel = z.object({
  wait: flag,
  action: one.pipe(z.enum(["interrupt", "rollback"]).optional()),
  reason: one.pipe(z.enum(["taken"]).optional()),
});
