// What langgraph.json says under "perdure", for all graphs and for single ones, of how runs are treated.
import { z } from "zod";
import { AT_CAP, type BudgetPolicy, NO_LIMITS } from "../core/budget.js";
import { DURATION_HINT, parseDuration } from "../core/duration.js";
import { PRIORITY, PRIORITY_NAMES } from "../core/run.js";
import { DEFAULT_POLICY, type PolicyOf, type RunPolicy } from "../core/policy.js";

/** A length of time in ms, written like "30s" or "12h". */
export const duration = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms === undefined) context.addIssue({ code: "custom", message: DURATION_HINT });
  return ms ?? 0;
});

/** Each message waits for so long: what would be noticed as a delay of minutes is a mistake. */
const MAX_MERGE_MS = 60_000;
const mergeWindow = duration.refine(
  (ms) => ms <= MAX_MERGE_MS,
  "must not be longer than 60s: each message waits for it",
);

/** Runs at a time; 0: none. */
export const maxRunning = z.int().min(0).max(100_000);

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const SPENDING = { cost: z.number().min(0).optional(), tokens: limit.optional() };

/** Everything here may stand for all graphs, and again for one. */
export const POLICY_SHAPE = {
  mode: z.enum(["durable", "edge"]).optional(),
  maxAttempts: z.int().min(1).max(100).optional(),
  undeclaredTools: z.enum(["ask", "retry"]).optional(),
  followups: z.boolean().optional(),
  outagePatience: duration.optional(),
  mergeWindow: mergeWindow.optional(),
  priority: z.enum(PRIORITY_NAMES).optional(),
  maxRunning: maxRunning.optional(),
  timeouts: z
    .object({ tool: duration.optional(), model: duration.optional(), betweenTokens: duration.optional() })
    .strict()
    .optional(),
  budgets: z
    .object({
      run: z
        .object({ ...SPENDING, steps: limit.optional(), activeTime: duration.optional() })
        .strict()
        .optional(),
      thread: z.object(SPENDING).strict().optional(),
      day: z.object(SPENDING).strict().optional(),
      atCap: z.enum(AT_CAP).optional(),
      cheaperModel: z.string().min(1).max(200).optional(),
    })
    .strict()
    .refine(({ atCap, cheaperModel }) => (atCap === "model") === (cheaperModel !== undefined), {
      message: '"atCap": "model" and "cheaperModel" go together',
    })
    .optional(),
};
const policyJson = z.object(POLICY_SHAPE);
type PolicyJson = Readonly<z.output<typeof policyJson>>;

/** The policy of each graph: its own settings, else those for all graphs, else the defaults. */
export function policiesOf(all: PolicyJson, single: Readonly<Record<string, PolicyJson>>): PolicyOf {
  const shared = over(DEFAULT_POLICY, all);
  const own = new Map(Object.entries(single).map(([id, settings]) => [id, over(shared, settings)]));
  return (graphId) => own.get(graphId) ?? shared;
}

function over(below: RunPolicy, json: PolicyJson): RunPolicy {
  return {
    mode: json.mode ?? below.mode,
    maxAttempts: json.maxAttempts ?? below.maxAttempts,
    undeclaredTools: json.undeclaredTools ?? below.undeclaredTools,
    followups: json.followups ?? below.followups,
    outagePatienceMs: json.outagePatience ?? below.outagePatienceMs,
    timeouts: {
      toolMs: json.timeouts?.tool ?? below.timeouts.toolMs,
      modelMs: json.timeouts?.model ?? below.timeouts.modelMs,
      betweenTokensMs: json.timeouts?.betweenTokens ?? below.timeouts.betweenTokensMs,
    },
    mergeWindowMs: json.mergeWindow ?? below.mergeWindowMs,
    maxRunning: json.maxRunning ?? below.maxRunning,
    priority: json.priority === undefined ? below.priority : PRIORITY[json.priority],
    budget: json.budgets === undefined ? below.budget : budgetOf(json.budgets),
  };
}

/** The budgets of a graph are its own as a whole: limits that somebody forgot to repeat would be a surprise. */
function budgetOf(json: NonNullable<PolicyJson["budgets"]>): BudgetPolicy {
  const { run = {}, thread = {}, day = {}, atCap = "park", cheaperModel = null } = json;
  const { steps = null, activeTime: activeMs = null } = run;
  const spending = (given: Readonly<{ cost?: number | undefined; tokens?: number | undefined }>) => ({
    cost: given.cost ?? null,
    tokens: given.tokens ?? null,
  });
  return {
    limits: {
      run: { ...spending(run), steps, activeMs },
      thread: { ...NO_LIMITS, ...spending(thread) },
      day: { ...NO_LIMITS, ...spending(day) },
    },
    atCap,
    cheaperModel,
  };
}
