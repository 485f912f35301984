// A question about one call. In a task of several calls the answers must not be mixed up, whichever call comes first when the
// task is entered again: which of the task's answers are a call's own is in its row before it asks.
import { interrupt } from "@langchain/langgraph";
import { randomUUID } from "node:crypto";
import type { EffectQuestion, EffectRow } from "./effect.js";
import type { CallConfig } from "./identity.js";
import type { EffectSpec } from "./effect-spec.js";
import { othersDone, taskCalls } from "./task-calls.js";

/** LangGraph's own notes on a task that is running. */
type Scratchpad = { interruptCounter: number; resume: unknown[] };
type Send = (writes: readonly (readonly [string, unknown])[]) => void;

/** The answer, when there is one; else it ends the task with the question. */
export async function ask(spec: EffectSpec, row: EffectRow | undefined, value: unknown): Promise<unknown> {
  const { port, identity, config } = spec;
  const pad = scratchpadOf(config);
  const asked = questionIn(row, identity.task);
  if (asked?.open === true) {
    const at = asked.at.at(-1) ?? 0;
    if (at < pad.resume.length) return answerAt(config, pad, at);
  }
  const calls = taskCalls(port.tasks, identity.task);
  // One question at a time: the others are asked when the task is entered again.
  if (calls.asking !== undefined) return new Promise(() => undefined);
  calls.asking = othersDone(calls).then(async () => {
    if (asked?.open === true) return;
    const at = [...(asked?.at ?? []), pad.resume.length];
    await port.move({
      ...spec.rowAs(row?.status === "unknown" ? "unknown" : "asked"),
      callId: row?.callId ?? randomUUID(),
      question: { task: identity.task, at, open: true },
    });
  });
  await calls.asking;
  pad.interruptCounter = pad.resume.length - 1;
  return interrupt(value);
}

/** The answers to what the call itself asked, in order. */
export function answersOf(config: CallConfig, row: EffectRow | undefined, task: string): unknown[] {
  const { resume } = scratchpadOf(config);
  const { at = [] } = questionIn(row, task) ?? {};
  return at.filter((position) => position < resume.length).map((position) => resume[position]);
}

/** What a row says of its questions once the open one is answered. */
export function answered(row: EffectRow | undefined, task: string): EffectQuestion | null {
  const asked = questionIn(row, task);
  return asked === null ? null : { ...asked, open: false };
}

function questionIn(row: EffectRow | undefined, task: string): EffectQuestion | null {
  return row?.question?.task === task ? row.question : null;
}

function answerAt(config: CallConfig, pad: Scratchpad, at: number): unknown {
  // As LangGraph's `interrupt` notes it, but with every answer there is: a shorter list would forget the others.
  (config.configurable?.["__pregel_send"] as Send | undefined)?.([["__resume__", [...pad.resume]]]);
  return pad.resume[at];
}

export function scratchpadOf(config: CallConfig): Scratchpad {
  return config.configurable?.["__pregel_scratchpad"] as Scratchpad;
}
