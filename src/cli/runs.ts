// `perdure runs`: what ran, and what became of it.
import type { Deps } from "../core/deps.js";
import { EngineError, isBodyLost, isEngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type RunId, type ThreadId } from "../core/ids.js";
import { endedBy, type RunError, type RunStatus } from "../core/run.js";
import { attentionOf } from "../engine/attention.js";
import { closeRun, type Resolve, retryRun } from "../engine/commands/retry-run.js";
import { loadRunContent } from "../engine/run-content.js";
import { listEvents } from "../runs/events.js";
import { getRun, listRuns, type RunRow } from "../runs/runs.js";
import { details, type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

export type RunsFilter = Readonly<{
  status: RunStatus | null;
  threadId: ThreadId | null;
  graphId: string | null;
  needsAttention: boolean;
  limit: number;
}>;

export async function runsLs(
  deps: Deps,
  filter: RunsFilter,
  print: Output & Readonly<{ json: boolean }>,
): Promise<void> {
  const runs = await listRuns(deps.db, {
    tenantId: DEFAULT_TENANT,
    limit: filter.limit,
    offset: 0,
    needsAttention: filter.needsAttention,
    ...(filter.status === null ? {} : { status: filter.status }),
    ...(filter.threadId === null ? {} : { threadId: filter.threadId }),
    ...(filter.graphId === null ? {} : { graphId: filter.graphId }),
  });
  if (print.json) {
    return print.line(json(runs.map((run) => ({ ...wire(run), needs_attention: attentionOf(run) }))));
  }
  const rows = runs.map((run) => ({
    run: run.runId,
    graph: run.graphId,
    status: run.status,
    "waits for": waitsFor(run),
    attempt: run.attempt,
    created: run.createdAt,
    thread: run.threadId,
    error: run.errorType,
    ...(filter.needsAttention ? { code: run.errorCode, crashes: run.crashes, failures: run.failures } : {}),
  }));
  print.line(table(rows, "There are no such runs."));
}

export async function runsShow(deps: Deps, runId: RunId, print: Output & Readonly<{ json: boolean }>): Promise<void> {
  const run = await getRun(deps.db, { tenantId: DEFAULT_TENANT, runId });
  if (run === undefined) throw new EngineError("not_found", `There is no run ${runId}; \`perdure runs ls\` lists them`);
  const events = await listEvents(deps.db, run);
  const error = run.errorCode === null ? null : await errorOf(deps, run, print);
  if (print.json) return print.line(json({ ...wire(run), error, events: events.map(wire) }));
  print.line(
    details({
      run: run.runId,
      thread: run.threadId,
      graph: run.graphId,
      status: run.status,
      "waits for": waitsFor(run),
      attempt: run.attempt,
      crashes: run.crashes || null,
      failures: run.failures || null,
      resolved: resolvedOf(run),
      worker: run.leaseOwner,
      "cancelled because": run.cancelReason,
      "ended by": endedBy(run),
      version: run.agentVersion,
      checkpoint: run.resultCheckpointId,
      created: run.createdAt,
      started: run.startedAt,
      finished: run.finishedAt,
      error: error === null ? run.errorPreview : `${error.type}: ${error.message}`,
    }),
  );
  const rows = events.map(({ createdAt, attempt, type, payload }) => ({
    at: createdAt.toISOString(),
    attempt,
    event: type,
    facts: Object.entries(payload)
      .map(([name, value]) => `${name}=${String(value)}`)
      .join(" "),
  }));
  print.line(`\n${table(rows, "It has no events.")}`);
}

/** What is lost with a body, or expired, must not hide what is still known of the run. */
async function errorOf(deps: Deps, run: RunRow, print: Output): Promise<RunError | null> {
  try {
    return (await loadRunContent(deps, run.tenantId, run.runId, { stream: false })).error as RunError | null;
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "expired")) throw error;
    print.note(`perdure: ${error.message}`);
    return null;
  }
}

/** Goes on for a run that failed, in a new one. */
export async function runsRetry(deps: Deps, resolve: Resolve, print: Output & Readonly<{ json: boolean }>) {
  const { run } = await retryRun(deps, { ...resolve, once: null });
  if (print.json) return print.line(json(wire(run)));
  print.line(`Run ${run.runId} goes on for it on thread ${run.threadId}.`);
}

export async function runsClose(
  deps: Deps,
  resolve: Resolve & Readonly<{ moveAfterMs: number }>,
  print: Output & Readonly<{ json: boolean }>,
) {
  const run = await closeRun(deps, resolve);
  if (print.json) return print.line(json(wire(run)));
  print.line(`Run ${run.runId} is closed: it waits for nobody any more.`);
}

function resolvedOf(run: RunRow): string | null {
  if (run.resolved === null) return null;
  return `${run.resolved} by ${run.resolvedBy}${run.resolvedRunId === null ? "" : `, run ${run.resolvedRunId}`}`;
}

function waitsFor(run: RunRow): string | null {
  if (run.waitsFor === "provider") return `provider ${run.provider}`;
  if (run.waitsFor === "timer" && run.availableAt !== null) return `timer, ${run.availableAt.toISOString()}`;
  return run.waitsFor;
}
