// Questions that a tool asks with LangGraph's `interrupt`, in a task that it shares with other calls. LangGraph counts a task's
// questions in the order they come, which differs each time; so each call sees only its own answers, as if it were alone.
import { isGraphInterrupt } from "@langchain/langgraph";
import { takeAnswers, scratchpadOf } from "./ask.js";
import type { EffectRow } from "./effect.js";
import type { CallConfig } from "./identity.js";

/** The call itself asks, not a graph inside of it. */
export class OwnQuestion extends Error {
  override readonly name = "OwnQuestion";
  constructor(readonly value: unknown) {
    super("The call asks");
  }
}

/** What calls in one task are apart by, in what LangGraph counts per task: graphs and tasks that they call. */
const COUNTERS_PER_CALL = 1_000;

type Send = (writes: readonly (readonly [string, unknown])[]) => void;

/**
 * Does `work` with a config in which the questions of a call are answered with its own answers only; throws `OwnQuestion` when it asks
 * one more. `place` is that of the call among those of its task.
 */
export async function withOwnAnswers(
  config: CallConfig,
  row: EffectRow | undefined,
  of: Readonly<{ scope: string; place: number }>,
  work: (config: CallConfig) => Promise<unknown>,
): Promise<unknown> {
  const pad = scratchpadOf(config);
  const resume = takeAnswers(config, row, of.scope);
  const first = of.place * COUNTERS_PER_CALL;
  // What LangGraph notes later in the task's own must be seen, and its notes on the call must not be.
  const own = Object.create(pad) as typeof pad & { subgraphCounter: number; callCounter: number };
  Object.assign(own, { interruptCounter: -1, resume, subgraphCounter: first, callCounter: first });
  const send = config.configurable?.["__pregel_send"] as Send | undefined;
  // As `interrupt` notes an answer it took, but with every answer of the task: a shorter list would forget the others.
  const sendAll: Send = (writes) =>
    send?.(writes.map(([channel, value]) => [channel, channel === "__resume__" ? [...pad.resume] : value]));
  const configurable = { ...config.configurable, __pregel_scratchpad: own, __pregel_send: sendAll };
  try {
    return await work({ ...config, configurable });
  } catch (error) {
    const isOwn = isGraphInterrupt(error) && own.interruptCounter >= own.resume.length;
    throw isOwn ? new OwnQuestion(error.interrupts[0]?.value) : error;
  }
}
