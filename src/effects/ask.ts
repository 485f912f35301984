// A question about one call. In a task of several calls the answers must not be mixed up, whichever call comes first when the
// task is entered again: which of the answers are a call's own is in its row before it asks.
import { interrupt } from "@langchain/langgraph";
import { randomUUID } from "node:crypto";
import type { EffectQuestion, EffectRow } from "./effect.js";
import type { CallConfig } from "./identity.js";
import { type EffectSpec, rowAs } from "./effect-spec.js";
import { taskCalls, turnToAsk } from "./task-calls.js";

/** LangGraph's own notes on a task that is running. */
type Scratchpad = { interruptCounter: number; resume: unknown[] };
type Send = (writes: readonly (readonly [string, unknown])[]) => void;

/** The answer, when there is one; else it ends the task with the question. */
export async function ask(
  spec: EffectSpec,
  row: Pick<EffectRow, "status" | "callId" | "question"> | undefined,
  value: unknown,
): Promise<unknown> {
  const { port, identity, config } = spec;
  const pad = scratchpadOf(config);
  const asked = questionIn(row, identity.scope);
  const isOpen = asked?.open === true;
  if (isOpen) {
    const at = asked.at.at(-1) ?? 0;
    if (at < pad.resume.length) {
      noteAnswers(config);
      return pad.resume[at];
    }
  }
  await turnToAsk(taskCalls(port.tasks, identity.scope), isOpen);
  const place = pad.resume.length;
  // An attempt that died with an answer in hand took along the place that the next question had.
  const keepsPlace = isOpen && asked.at.at(-1) === place;
  if (!keepsPlace) {
    const at = [...(asked?.at ?? []).filter((earlier) => earlier < place), place];
    await port.move({
      ...rowAs(spec, row?.status === "unknown" ? "unknown" : "asked"),
      callId: row?.callId ?? randomUUID(),
      question: { scope: identity.scope, at, open: true },
    });
  }
  // With the question, also those that an attempt took which died: the answer to come is counted from them.
  if (place > 0) noteAnswers(config);
  pad.interruptCounter = place - 1;
  return interrupt(value);
}

/** Takes the answers to what the call itself asked, in order. */
export function takeAnswers(config: CallConfig, row: EffectRow | undefined, scope: string): unknown[] {
  const { resume } = scratchpadOf(config);
  const { at = [] } = questionIn(row, scope) ?? {};
  const own = at.filter((position) => position < resume.length).map((position) => resume[position]);
  if (own.length > 0) noteAnswers(config);
  return own;
}

/** What a row says of its questions once the open one is answered. */
export function answered(row: EffectRow | undefined, scope: string): EffectQuestion | null {
  const asked = questionIn(row, scope);
  return asked === null ? null : { ...asked, open: false };
}

function questionIn(row: Pick<EffectRow, "question"> | undefined, scope: string): EffectQuestion | null {
  return row?.question?.scope === scope ? row.question : null;
}

/** As LangGraph's `interrupt` notes an answer that it took, but all there are of the task: a shorter list would forget the others. */
function noteAnswers(config: CallConfig): void {
  const send = config.configurable?.["__pregel_send"] as Send | undefined;
  send?.([["__resume__", [...scratchpadOf(config).resume]]]);
}

export function scratchpadOf(config: CallConfig): Scratchpad {
  return config.configurable?.["__pregel_scratchpad"] as Scratchpad;
}
