// What a question comes with: what its own `approve` says, else what the project says of its graph, else what is usual.
import { z } from "zod";
import { type ApprovalPolicy, NO_POLICY, POLICY, type Question } from "../core/approval.js";
import { EngineError } from "../core/errors.js";
import { DURATION_HINT, parseDuration } from "../core/duration.js";
import { allowedDecisions, formOf } from "./hitl.js";

const duration = z.union([z.int().min(1), z.string()]).transform((given, context) => {
  const ms = typeof given === "number" ? given : parseDuration(given);
  if (ms !== undefined) return ms;
  context.addIssue({ code: "custom", message: `${DURATION_HINT}, or a number of milliseconds` });
  return z.NEVER;
});
const names = z.array(z.string().min(1).max(200)).max(100).default([]);
const people = z
  .object({ people: names, roles: names })
  .strict()
  .refine((given) => given.people.length + given.roles.length > 0, "must name people, roles or both");

/** As an author or a project writes it. */
export const approvalSettings = z
  .object({
    deciders: people.optional(),
    atLeast: z.int().min(1).max(100).optional(),
    deadline: duration.optional(),
    onDeadline: z
      .union([z.enum(["reject", "end"]), z.object({ goto: z.string().min(1).max(200) }).strict()])
      .optional(),
    remindAfter: duration.optional(),
    escalateAfter: duration.optional(),
    escalateTo: people.optional(),
    onMessage: z.enum(["withdraw", "refuse", "queue"]).optional(),
  })
  .strict()
  .refine((given) => (given.escalateAfter === undefined) === (given.escalateTo === undefined), {
    message: "escalateAfter and escalateTo belong together",
  })
  .refine((given) => given.onDeadline === undefined || given.deadline !== undefined, {
    message: "onDeadline needs a deadline",
  });
/** What `approve` and `"perdure": {"approvals": …}` take. */
export type ApprovalSettings = z.input<typeof approvalSettings>;

/** The settings over those below them. */
function policyFrom(given: z.output<typeof approvalSettings>, below: ApprovalPolicy = NO_POLICY): ApprovalPolicy {
  return {
    deciders: given.deciders ?? below.deciders,
    atLeast: given.atLeast ?? below.atLeast,
    deadlineMs: given.deadline ?? below.deadlineMs,
    onDeadline: given.onDeadline ?? below.onDeadline,
    remindMs: given.remindAfter ?? below.remindMs,
    escalateMs: given.escalateAfter ?? below.escalateMs,
    escalateTo: given.escalateTo ?? below.escalateTo,
    allowed: below.allowed,
    onMessage: given.onMessage ?? below.onMessage,
  };
}

/** An open interrupt as a question. */
export function questionOf(
  asked: Readonly<{ id: string; node: string | null; value?: unknown }>,
  defaults: ApprovalPolicy,
): Question {
  const own = approvalSettings.safeParse((asked.value as { [POLICY]?: unknown } | null | undefined)?.[POLICY]);
  return {
    interruptId: asked.id,
    node: asked.node,
    ...formOf(asked.value),
    policy: { ...(own.success ? policyFrom(own.data, defaults) : defaults), allowed: allowedDecisions(asked.value) },
  };
}

/** `"perdure": {"approvals": …}`: for all graphs, and by graph over that. */
export const projectApprovals = approvalSettings.safeExtend({
  graphs: z.record(z.string(), approvalSettings).optional(),
});
export type ProjectApprovals = z.input<typeof projectApprovals>;
export type ApprovalDefaults = Readonly<{ all: ApprovalPolicy; byGraph: ReadonlyMap<string, ApprovalPolicy> }>;

/** Throws `config_invalid`, naming what can't be meant. */
export function approvalDefaults(given: ProjectApprovals): ApprovalDefaults {
  const parsed = projectApprovals.safeParse(given);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => `${["approvals", ...path].join(".")}: ${message}`);
    throw new EngineError("config_invalid", issues.join("\n"));
  }
  return defaultsOf(parsed.data);
}

export function defaultsOf({ graphs = {}, ...rest }: z.output<typeof projectApprovals>): ApprovalDefaults {
  const all = policyFrom(rest);
  return { all, byGraph: new Map(Object.entries(graphs).map(([id, own]) => [id, policyFrom(own, all)])) };
}

export function policyOf({ all, byGraph }: ApprovalDefaults, graphId: string): ApprovalPolicy {
  return byGraph.get(graphId) ?? all;
}
