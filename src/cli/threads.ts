// `perdure threads`: the state of a conversation, now and at each step before.
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../core/ids.js";
import { findThread } from "../engine/adopt/on-touch.js";
import type { Engine } from "../engine/engine.js";
import { renderJson, renderText } from "../engine/render.js";
import { getHistory, getStateAt, type OfThread } from "../engine/state.js";
import type { ThreadState } from "../engine/thread-state.js";
import { details, type Output, table } from "./output.js";

type Print = Output & Readonly<{ json: boolean }>;

export async function threadsHistory(
  engine: Engine,
  threadId: ThreadId,
  options: Readonly<{ limit: number }>,
  print: Print,
): Promise<void> {
  const states = await getHistory(engine, await find(engine, threadId), { limit: options.limit });
  if (print.json) return print.line(renderText(states));
  const rows = states.map((state) => ({
    step: cell(state.metadata.step),
    source: cell(state.metadata.source),
    next: state.next.join(", "),
    waiting: waiting(state),
    created: state.created_at,
    checkpoint: state.checkpoint?.checkpoint_id,
    run: cell(state.metadata.run_id),
  }));
  print.line(table(rows, "The thread has no state yet."));
}

export async function threadsState(
  engine: Engine,
  threadId: ThreadId,
  options: Readonly<{ checkpointId: string | null }>,
  print: Print,
): Promise<void> {
  const address = options.checkpointId === null ? {} : { checkpoint_id: options.checkpointId };
  const state = await getStateAt(engine, await find(engine, threadId), address, { subgraphs: false });
  if (print.json) return print.line(renderText(state));
  print.line(
    details({
      thread: threadId,
      checkpoint: state.checkpoint?.checkpoint_id,
      step: cell(state.metadata.step),
      next: state.next.join(", ") || null,
      waiting: waiting(state),
      created: state.created_at,
    }),
  );
  print.line(`\n${JSON.stringify(renderJson(state.values) ?? null, null, 2)}`);
}

async function find(engine: Engine, threadId: ThreadId): Promise<OfThread> {
  const thread = await findThread(engine, { tenantId: DEFAULT_TENANT, threadId });
  if (thread === undefined) throw new EngineError("not_found", `There is no thread ${threadId}`);
  return { tenantId: DEFAULT_TENANT, thread };
}

function waiting(state: ThreadState): string | null {
  const failed = state.tasks.filter((task) => task.error !== null).map((task) => `${task.name} failed`);
  const asks = state.tasks.filter((task) => task.interrupts.length > 0).map((task) => `${task.name} asks`);
  return [...failed, ...asks].join(", ") || null;
}

function cell(value: unknown): string | null {
  return value === undefined || value === null ? null : String(value);
}
