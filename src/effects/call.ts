// Makes the call of an effect: `started` is durable before it, what became of it after it.
import { randomUUID } from "node:crypto";
import { isGraphInterrupt } from "@langchain/langgraph";
import type { Sql } from "../core/deps.js";
import { answered, ask } from "./ask.js";
import type { EffectMove, EffectRow, FoundEffect, Resolution } from "./effect.js";
import { type EffectSpec, rowAs } from "./effect-spec.js";
import { codeOf, wasNotSent } from "./not-sent.js";
import { OwnQuestion } from "./own-questions.js";
import { othersDone, taskCalls } from "./task-calls.js";

/** What came of a call: its result, or a row that says that nobody knows. */
export type Called = Readonly<{ value: unknown }> | Readonly<{ doubtful: FoundEffect }>;

/** Makes the call in the place of the one that the row tells of. Throws what it failed with, where that is known to be all. */
export async function call(
  spec: EffectSpec,
  row: EffectRow | undefined,
  resolution: Resolution | null,
): Promise<Called> {
  const { port, identity, kind } = spec;
  const question = answered(row, identity.scope);
  const common = { callId: randomUUID(), question, resolution };
  const started = { ...rowAs(spec, "started"), ...common, replaces: row?.callId ?? null };
  if (kind === "none") return { value: await keepResult(spec, row, started) };
  if (kind === "local") {
    const done = { ...started, status: "succeeded" as const };
    const perform = (tx: Sql) => limited(spec, (signal) => spec.perform({ key: identity.key, signal, tx, row }));
    return { value: await port.local(done, perform) };
  }
  await port.move(started);
  port.signal.throwIfAborted();
  const begun = { ...started, replaces: null, resolution: null };
  let value: unknown;
  try {
    value = await limited(spec, (signal) => spec.perform({ key: identity.key, signal, row }));
  } catch (error) {
    return error instanceof OwnQuestion ? { value: await askFor(spec, begun, error) } : failed(spec, begun, error);
  }
  await succeed(spec, begun, value);
  return { value };
}

/** It did nothing yet that counts: when it is answered, or entered again for another's answer, it begins anew. */
async function askFor(spec: EffectSpec, move: EffectMove, { value }: OwnQuestion): Promise<unknown> {
  const row = { ...move, status: "failed" as const, errorCode: "interrupted" };
  await spec.port.move(row);
  return ask(spec, row, value);
}

/** Nothing outside happens: only what came out is kept, so that it isn't done again. */
async function keepResult(spec: EffectSpec, row: EffectRow | undefined, started: EffectMove): Promise<unknown> {
  const value = await limited(spec, (signal) => spec.perform({ key: spec.identity.key, signal, row }));
  await succeed(spec, started, value);
  return value;
}

export async function succeed(spec: EffectSpec, move: EffectMove, value: unknown): Promise<void> {
  const done = { ...move, status: "succeeded" as const };
  let result: Buffer;
  try {
    result = spec.port.encode(value, spec.tool);
  } catch (error) {
    if (spec.kind === "none" || spec.kind === "undeclared") return;
    // It was done all the same, and must not be done again.
    await spec.port.move({ ...done, errorCode: "value_unsupported" });
    throw refuse(spec, error as Error);
  }
  await spec.port.move({ ...done, result });
}

async function failed(spec: EffectSpec, move: EffectMove, error: unknown): Promise<Called> {
  const { port, policy } = spec;
  // Cut off from outside: what became of it the next attempt has to find out.
  if (port.signal.aborted) throw error;
  const cutOff = spec.config.signal?.aborted === true;
  const errorCode = isGraphInterrupt(error) ? "interrupted" : codeOf(error);
  if (isGraphInterrupt(error) || wasNotSent(error)) {
    await port.move({ ...move, status: "failed", errorCode });
    // The task ends with it: the others are not cut off.
    if (isGraphInterrupt(error)) await othersDone(taskCalls(port.tasks, spec.identity.scope));
    throw error;
  }
  await port.move({ ...move, status: "unknown", errorCode });
  if (cutOff || policy === "retry") throw error;
  const { own } = await port.find({ key: move.key, tool: move.tool, argsHash: move.argsHash, withinMs: 0 });
  if (own === undefined) throw error;
  return { doubtful: own };
}

/** With the tool's limit of time; it may go on in the background, but nobody waits for it. */
async function limited<T>(spec: EffectSpec, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { port, tool, timeoutMs, config } = spec;
  const limit = new AbortController();
  const signal = AbortSignal.any([port.signal, limit.signal, ...(config.signal === undefined ? [] : [config.signal])]);
  const timer = setTimeout(() => limit.abort(timedOut(tool, timeoutMs)), timeoutMs);
  const { promise: over, stop } = whenAborted(signal);
  try {
    return await Promise.race([work(signal), over]);
  } finally {
    clearTimeout(timer);
    stop();
  }
}

function whenAborted(signal: AbortSignal): Readonly<{ promise: Promise<never>; stop: () => void }> {
  let stop = (): void => undefined;
  const promise = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    stop = () => signal.removeEventListener("abort", onAbort);
  });
  promise.catch(() => undefined);
  return { promise, stop };
}

function timedOut(tool: string, timeoutMs: number): Error {
  const error = new Error(`The tool "${tool}" took more than ${timeoutMs} ms (its timeoutMs)`);
  return Object.assign(error, { name: "TimeoutError", code: "timeout" });
}

/** Nobody may take it for a result: the run ends with it. */
export function refuse(spec: EffectSpec, error: Error): Error {
  spec.port.refuse(error);
  return error;
}
