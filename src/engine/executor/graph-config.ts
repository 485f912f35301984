// What a graph is run with: the request's settings, the ids of what it runs for, and what LangGraph and our helpers need.
import type { Lease } from "../../core/clock.js";
import type { RunPolicy } from "../../core/policy.js";
import { seedOf } from "../../core/seed.js";
import type { ClaimedRun } from "../../runs/claim.js";
import type { RunRequest } from "../commands/request.js";
import { CLOCK_OFFSET } from "../sleep.js";

type ConfiguredRun = Readonly<{
  run: ClaimedRun;
  lease: Lease;
  request: RunRequest;
  metadata: Readonly<Record<string, unknown>>;
  mode: RunPolicy["mode"];
  /** What a model that can be chosen by configuration is to be; null: what was asked for. */
  model: string | null;
  /** Database time minus this machine's, in ms. */
  clockOffsetMs: number;
}>;

export function graphConfig({ run, lease, request, metadata, mode, model, clockOffsetMs }: ConfiguredRun) {
  const { config, context, interrupt_before, interrupt_after } = request;
  const ids = { run_id: lease.runId, thread_id: lease.threadId, graph_id: run.graphId, assistant_id: run.assistantId };
  const durability = mode === "edge" ? ("exit" as const) : ("sync" as const);
  return {
    runId: lease.runId,
    durability,
    configurable: {
      ...config.configurable,
      seed: seedOf(lease.runId, config.configurable),
      ...(model === null ? {} : { model }),
      ...ids,
      // Internal to LangGraph, which reads it for graphs in graphs and leaves it to others to set: else these run ahead of what is stored.
      __pregel_durability: durability,
      // Internal to LangGraph: refuses an answer to a question that isn't open instead of giving it to the next one.
      __pregel_strict_resume: true,
      [CLOCK_OFFSET]: clockOffsetMs,
    } as Record<string, unknown>,
    metadata: { ...metadata, ...ids, run_attempt: lease.attempt } as Record<string, unknown>,
    ...(config.tags === undefined ? {} : { tags: [...config.tags] }),
    ...(config.recursion_limit === undefined ? {} : { recursionLimit: config.recursion_limit }),
    ...(context === null || Object.keys(context).length === 0 ? {} : { context }),
    ...(interrupt_before === null ? {} : { interruptBefore: nodesOf(interrupt_before) }),
    ...(interrupt_after === null ? {} : { interruptAfter: nodesOf(interrupt_after) }),
  };
}

function nodesOf(nodes: "*" | readonly string[]): "*" | string[] {
  return nodes === "*" || nodes.includes("*") ? "*" : [...nodes];
}
