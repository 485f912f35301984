// One claimed run to one outcome: hold the lease, load, stream, look where the graph stopped, settle.
import { type BaseCheckpointSaver, type BaseStore, END, RunControl } from "@langchain/langgraph";
import { userIn } from "../../core/access.js";
import type { ApprovalPolicy } from "../../core/approval.js";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import type { FollowupLimits } from "../../core/followup-limits.js";
import type { PolicyOf } from "../../core/policy.js";
import type { Outcome, RunError } from "../../core/run.js";
import type { BodyReader } from "../../checkpoint/body-reader.js";
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import { createSaver } from "../../checkpoint/saver.js";
import type { TenantId } from "../../core/ids.js";
import type { ClaimedRun } from "../../runs/claim.js";
import { noteEntered } from "../../runs/failures.js";
import { decodeRequest, type RunRequest } from "../commands/request.js";
import type { LastChunks, Settle } from "../commands/settle-run.js";
import type { Combiner } from "../commit.js";
import type { Graphs, RunnableGraph } from "../graphs.js";
import type { Handover } from "../handover.js";
import type { Post } from "../post.js";
import type { Posted } from "../../delivery/outbox.js";
import type { Heartbeat } from "../heartbeat/heartbeat.js";
import type { Execute } from "../loops/worker.js";
import { edgeLost, edgeOutcome, refuseUnfit } from "../edge.js";
import { refuseMisfit } from "../fit.js";
import { leaseLost } from "../lease-lost.js";
import { type Acting, actingAs } from "../loopback.js";
import { openQuestions } from "../open-questions.js";
import { loadRunContent } from "../run-content.js";
import { quietStoreQueues } from "../quiet-store.js";
import { renderJson } from "../render.js";
import { OPEN_SLEEPS } from "../sleep.js";
import { forward } from "../stream/forward.js";
import type { Live } from "../stream/live.js";
import { planStream } from "../stream/plan.js";
import { outgoing } from "../stream/modes.js";
import { tellProtocol } from "../stream/protocol-lines.js";
import { type AppendStream, createStreamSink, type StreamSink } from "../stream/sink.js";
import { openSource } from "../stream/source.js";
import { type Attempt, startAttempt } from "./attempt.js";
import { type Barriers, createBarriers } from "./barrier.js";
import { budgetKeeper } from "./budget-keeper.js";
import { callTimeouts } from "./call-timeouts.js";
import { withCallsClosed } from "./close-calls.js";
import { EFFECTS } from "../../effects/port.js";
import { createEffects } from "./effects.js";
import { createGivenOut, withGivenOut } from "./given-out.js";
import { graphConfig } from "./graph-config.js";
import { appendMessages, beginFrom } from "./followups.js";
import { attemptInput, NOTHING_TO_DO } from "./input.js";
import { startMovePulse } from "./move-pulse.js";
import { patient } from "./patience.js";
import { createOutages, type Outages } from "./outages.js";
import { describeError, failureOutcome, outcomeOf, waitsForProvider } from "./outcome.js";

export type ExecutorOptions = Readonly<{
  graphs: Graphs;
  policyOf: PolicyOf;
  combiner: Combiner;
  heartbeat: Heartbeat;
  bodyReader: BodyReader;
  handover: Handover;
  storeOf: (tenantId: TenantId) => BaseStore;
  settle: Settle;
  appendStream: AppendStream;
  /** Tells who follows runs in this process. */
  live: Live;
  /** What a run says in the conversation its turn came from. */
  post: Post;
  moveAfterMs: number;
  approvals: (graphId: string) => ApprovalPolicy;
  followups: FollowupLimits;
  /** Database time minus this machine's, in ms. */
  clockOffsetMs: () => number;
}>;

type Shared = ExecutorOptions & Readonly<{ barriers: Barriers; outages: Outages }>;

/** A process that must stop leaves an unreachable database to the lease after this many tries. */
const MAX_TRIES_WHEN_STOPPING = 4;

type Ended = Readonly<{ outcome: Outcome; chunks: LastChunks; values?: unknown; posted?: readonly Posted[] }>;
const NO_CHUNKS: LastChunks = { final: [], ifSpent: [] };

/** The function a worker runs its claims with. It never rejects: what can't be settled is left to the lease. */
export function createExecutor(deps: Deps, given: ExecutorOptions): Execute {
  quietStoreQueues();
  const options: Shared = { ...given, barriers: createBarriers(), outages: createOutages(deps) };
  return async (run, lease, signals) => {
    const attempt = startAttempt(options, run, lease, signals);
    const stopPulse = startMovePulse(deps, lease, options.moveAfterMs);
    try {
      const ended = await runAttempt(deps, options, attempt);
      if (ended === undefined) throw leaseLost(lease);
      await settle(deps, options, attempt, ended);
      if (ended.values !== undefined) await options.outages.over(run);
      // Whoever waits reads what one has left that was ended before its graph was.
      const whole = ended.outcome.kind === "success" && ended.outcome.endedBy === undefined;
      if (whole) options.handover.give(lease.runId, () => renderJson(ended.values) ?? null);
    } catch (error) {
      const code = isEngineError(error) ? error.code : String((error as { code?: unknown }).code ?? "internal");
      const fields = { run_id: lease.runId, attempt: lease.attempt, code };
      if (code === "lease_lost") deps.log.info(fields, "the lease went to another attempt");
      else
        deps.log.error({ ...fields, error: (error as Error).name }, "the run could not be settled; its lease will end");
    } finally {
      stopPulse();
      options.heartbeat.release(lease);
      await options.outages.left(run);
    }
  };
}

/** Runs the graph; undefined when the lease is lost and there is nothing to say. */
async function runAttempt(deps: Deps, options: Shared, attempt: Attempt): Promise<Ended | undefined> {
  const { lease } = attempt;
  const live = options.live.attempt(lease.runId);
  let sink: StreamSink | undefined;
  const openSink = (watched: boolean): StreamSink =>
    (sink = createStreamSink(deps, lease, attempt.over, {
      append: options.appendStream,
      live,
      watched,
      onFailure: attempt.fail,
    }));
  const policy = options.policyOf(attempt.run.graphId);
  try {
    const lost = policy.mode === "edge" ? edgeLost(attempt.run) : null;
    if (lost !== null) return { outcome: lost, chunks: await lastChunks(lost, lease, () => openSink(true)) };
    const provider = await options.outages.inTheWay(attempt.run);
    if (provider !== null) return { outcome: waitsForProvider(provider, policy), chunks: NO_CHUNKS };
    return await streamGraph(deps, options, attempt, openSink);
  } catch (error) {
    const cutOffBy = attempt.failure();
    // Whoever failed, nothing of the graph goes on in the background.
    attempt.fail(error);
    // A store that is away leaves them in doubt: they count as reserved then.
    await attempt.settleCalls().catch(() => undefined);
    const checkpointId = (await newestOwnCheckpoint(deps, lease)) ?? null;
    const outcome = failureOutcome(error, {
      cutOffBy,
      aborted: attempt.over.aborted,
      draining: attempt.drain.aborted,
      checkpointId,
      attempt: lease.attempt,
      random: deps.random(),
      policy,
      provider: `graph:${attempt.run.graphId}`,
      nowMs: Date.now() + options.clockOffsetMs(),
      cheaper: attempt.run.cheaper,
    });
    if (outcome?.kind === "outage") options.outages.found(attempt.run, outcome);
    return outcome && { outcome, chunks: await lastChunks(outcome, lease, () => sink ?? openSink(true)) };
  } finally {
    live.close();
  }
}

async function streamGraph(
  deps: Deps,
  options: Shared,
  attempt: Attempt,
  openSink: (watched: boolean) => StreamSink,
): Promise<Ended> {
  const patiently = patient(deps, options.bodyReader, { attempt: attempt.stop, draining: attempt.drain });
  const { db, bodies, reader } = patiently;
  const request = decodeRequest(await requestOf({ ...deps, db, bodies }, attempt.run, reader));
  const work = () => streamRequest(deps, options, attempt, request, patiently, openSink);
  return actingAs(actingOf(deps, attempt, request), work);
}

async function streamRequest(
  deps: Deps,
  options: Shared,
  attempt: Attempt,
  request: RunRequest,
  { db, reader }: ReturnType<typeof patient>,
  openSink: (watched: boolean) => StreamSink,
): Promise<Ended> {
  const { run, lease, stop, drain } = attempt;
  const { tenantId, runId, threadId } = lease;
  // Before its code does anything: a worker that dies earlier was not killed by it.
  if (run.crashes > 0) await noteEntered(db, lease);
  const sink = openSink(request.watched);
  const givenOut = createGivenOut();
  const stored = { sql: db, tenantId, bodies: reader };
  const written = { attempt: lease.attempt, commit: attempt.commit, largeBodies: { deps, threadId } };
  const { begins_from: from, append } = request;
  if (from !== undefined) {
    const [source, target] = [createSaver({ ...stored, commit: null }), createSaver({ ...stored, ...written })];
    await beginFrom(source, target, lease, from);
  }
  const saver = createSaver({
    ...stored,
    ...written,
    givenOut: givenOut.values,
    runId,
    fresh: run.fresh && from === undefined,
    resumes: true,
    inputBehind: true,
    onTaskResult: () => options.barriers.callsTasks(run.graphId),
  });
  const policy = options.policyOf(run.graphId);
  const timeouts = callTimeouts(policy.timeouts, attempt.fail);
  const budget = budgetKeeper(deps, attempt, policy.budget, () => saver.flushed());
  const control = new RunControl();
  const onDrain = (): void => control.requestDrain("worker stopping");
  drain.addEventListener("abort", onDrain, { once: true });
  if (drain.aborted) onDrain();
  try {
    const base = graphConfig({
      run,
      lease,
      request,
      metadata: run.metadata,
      mode: policy.mode,
      model: run.cheaper ? policy.budget.cheaperModel : null,
      clockOffsetMs: options.clockOffsetMs(),
    });
    const graph = await bindGraph(options, run, base, saver);
    if (append !== undefined) await appendMessages(db, { graph, config: { ...base, signal: stop }, lease, append });
    const begin = append === undefined ? await attemptInput(db, saver, lease, request, run.begun) : NOTHING_TO_DO;
    const givesOut = givenOut.watch(graph);
    const { checkpoint, endsTasks, sleeps, pending } = begin;
    refuseMisfit(graph, pending, { ...run, version: options.graphs.version(run.graphId), threadId });
    const effects = createEffects(deps, {
      lease,
      commit: attempt.commit,
      flushed: () => saver.flushed(),
      signal: stop,
      refuse: attempt.fail,
      bodyReader: reader,
      edge: policy.mode === "edge",
      undeclared: policy.undeclaredTools,
      followups: options.followups,
    });
    const input = await withCallsClosed({ graph, saver, effects, threadId }, begin);
    if (endsTasks) await graph.updateState({ ...base, signal: stop }, null, END);
    const plan = planStream(request);
    const source = await openSource(
      graph,
      input as Parameters<typeof openSource>[1],
      {
        ...base,
        configurable: { ...base.configurable, ...(checkpoint ?? {}), [OPEN_SLEEPS]: sleeps, [EFFECTS]: effects },
        signal: stop,
        control,
        ...options.barriers.before(
          graph,
          run.graphId,
          saver,
          stop,
          [budget, timeouts].filter((watch) => watch !== null),
        ),
      },
      plan,
    );
    const protocol = plan.protocol ? tellProtocol(graph, () => Date.now() + options.clockOffsetMs()) : undefined;
    const held = await forward(source.chunks, outgoing(source, plan, protocol?.lines), {
      push: (event) => sink.push(event),
      flushed: () => saver.flushed(),
    }).catch((error: unknown) => {
      protocol?.fail(error);
      throw error;
    });
    const end = saver.atEnd(threadId);
    graph.checkpointer = end as unknown as BaseCheckpointSaver;
    const state = await graph.getState({ configurable: { thread_id: threadId } });
    const open = await openQuestions(state, end);
    const stopped = outcomeOf(state, open, options.approvals(run.graphId));
    const outcome = policy.mode === "edge" ? edgeOutcome(run.graphId, stopped) : stopped;
    if (outcome.kind === "error") return { outcome, chunks: await lastChunks(outcome, lease, () => sink) };
    // An earlier attempt may have stored it.
    const last = givesOut ? await saver.getTuple({ configurable: { thread_id: threadId } }) : undefined;
    const values: unknown = withGivenOut(state.values, last);
    const finished = outcome.kind === "success";
    const posted = await options.post({ ...lease, ...run }, { finished, values, open });
    const said = protocol === undefined ? held : [...held, ...(await protocol.last())];
    return { outcome, chunks: { final: await sink.finish(said), ifSpent: [] }, values, posted };
  } finally {
    timeouts?.stop();
    drain.removeEventListener("abort", onDrain);
  }
}

/** Whom the graph's own calls of the API are for: who made the run. */
function actingOf(deps: Deps, { lease, stop, rest }: Attempt, { config }: RunRequest): Acting {
  const user = userIn(config.configurable);
  const who = { tenantId: lease.tenantId, user };
  return { home: deps, who: () => who, threadId: lease.threadId, signal: stop, ...(rest && { rest }) };
}

/** What was asked for: it came with the claim, unless it was moved or has crossed to another process. */
async function requestOf(deps: Deps, run: ClaimedRun, bodyReader: BodyReader): Promise<unknown> {
  if (run.request !== null) return JSON.parse(run.request.toString("utf8"));
  return (await loadRunContent(deps, run.tenantId, run.runId, { stream: false, bodyReader })).request;
}

/** A copy of the graph that carries this lease's saver, so that no shared compiled graph is touched. */
async function bindGraph(
  options: ExecutorOptions,
  run: ClaimedRun,
  config: Readonly<{ configurable: Record<string, unknown>; metadata: Record<string, unknown>; context?: unknown }>,
  saver: ReturnType<typeof createSaver>,
): Promise<RunnableGraph> {
  const runtime = { accessContext: "threads.create_run", executionRuntime: { context: config.context } } as const;
  const shared = await options.graphs.get(run.graphId, config, runtime);
  const graph = shared.withConfig({});
  // LangGraph's type fixes versions to numbers; its code compares whatever the saver makes.
  graph.checkpointer = saver as unknown as BaseCheckpointSaver;
  if (options.policyOf(run.graphId).mode === "edge") refuseUnfit(run.graphId, graph);
  graph.store = options.storeOf(run.tenantId);
  return graph;
}

/** What is left to be shown of an attempt that didn't come to its graph's end. */
async function lastChunks(outcome: Outcome, { runId, attempt }: Lease, sinkOf: () => StreamSink): Promise<LastChunks> {
  if (outcome.kind === "success" && outcome.endedBy !== undefined) {
    const sink = sinkOf();
    const metadata = { run_id: runId, attempt, ended_by: outcome.endedBy };
    const final = await sink.finish([]).catch(() => []);
    return { final: [...final, ...sink.number([{ event: "metadata", json: JSON.stringify(metadata) }])], ifSpent: [] };
  }
  if (!("error" in outcome)) return NO_CHUNKS;
  const sink = sinkOf();
  // The error must be told even where the stream before it could not be stored.
  const final = await sink.finish([]).catch(() => []);
  const told = sink.number([errorEvent(outcome.error)]);
  return outcome.kind === "error" ? { final: [...final, ...told], ifSpent: [] } : { final, ifSpent: told };
}

function errorEvent({ type, message }: RunError) {
  return { event: "error", json: JSON.stringify({ error: type, message }) };
}

async function newestOwnCheckpoint(deps: Deps, lease: Lease): Promise<string | undefined> {
  try {
    return await newestCheckpointOfRun(deps.db, lease);
  } catch (error) {
    deps.log.warn({ run_id: lease.runId, error: describeError(error).type }, "could not read the last checkpoint");
    return undefined;
  }
}

/** Settles until the database answered: an outage must not turn a finished run into a lost one. */
async function settle(deps: Deps, options: ExecutorOptions, attempt: Attempt, ended: Ended): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await options.settle(attempt.lease, ended.outcome, ended.chunks, ended.posted);
      return;
    } catch (error) {
      if (!isTransientDbError(error) || (attempt.drain.aborted && tries >= MAX_TRIES_WHEN_STOPPING)) throw error;
      await deps.clock.sleep(backoffMs(tries, deps.random(), 100, 2_000));
    }
  }
}
