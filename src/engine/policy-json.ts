// What langgraph.json says under "perdure", for all graphs and for single ones, of how runs are treated when something goes wrong.
import { z } from "zod";
import { DURATION_HINT, parseDuration } from "../core/duration.js";
import { DEFAULT_POLICY, type PolicyOf, type RunPolicy } from "../core/policy.js";

/** A length of time in ms, written like "30s" or "12h". */
export const duration = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms === undefined) context.addIssue({ code: "custom", message: DURATION_HINT });
  return ms ?? 0;
});

/** Everything here may stand for all graphs, and again for one. */
export const POLICY_SHAPE = {
  mode: z.enum(["durable", "edge"]).optional(),
  maxAttempts: z.int().min(1).max(100).optional(),
  outagePatience: duration.optional(),
  timeouts: z
    .object({ tool: duration.optional(), model: duration.optional(), betweenTokens: duration.optional() })
    .strict()
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
    outagePatienceMs: json.outagePatience ?? below.outagePatienceMs,
    timeouts: {
      toolMs: json.timeouts?.tool ?? below.timeouts.toolMs,
      modelMs: json.timeouts?.model ?? below.timeouts.modelMs,
      betweenTokensMs: json.timeouts?.betweenTokens ?? below.timeouts.betweenTokensMs,
    },
  };
}
