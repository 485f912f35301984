// Calls that a state leaves open: a model asked for tools, and the run was cancelled, failed or superseded before their results were
// stored. Providers refuse a history in which a call has no answer, so the next message closes them first, with what is known.
import type { BaseMessage, ToolMessage } from "@langchain/core/messages";
import type { FoundEffect } from "./effect.js";
import { hashOfArgs, keyOfCall } from "./identity.js";
import { messageFor, resultFor } from "./messages.js";
import type { EffectsPort } from "./port.js";

type Call = Readonly<{ id?: string; name: string; args: unknown }>;
type Loose = Readonly<{ id?: unknown; tool_calls?: unknown; tool_call_id?: unknown }> | null | undefined;
type Write = readonly [task: string, channel: string, value: unknown];

/** What a run begins on top of. */
export type OpenState = Readonly<{
  messages: readonly unknown[];
  /** What tasks of it had stored that were not all done. */
  writes: readonly Write[];
  /** Ids of the tasks that it was going on with. */
  tasks: () => Promise<readonly string[]>;
}>;

/**
 * Answers to the calls of the last message, in their order, as errors where there is none: what tasks had stored, what the ledger
 * knows, or that nobody knows. `given` are the messages that come next; what they answer or rewrite is left to them.
 */
export async function closingMessages(
  port: EffectsPort,
  { messages, writes, tasks }: OpenState,
  given: readonly unknown[],
): Promise<BaseMessage[]> {
  const at = messages.findLastIndex((message) => toolCallId(message) === undefined);
  const asking = messages[at] as Loose;
  const calls = callsOf(asking);
  if (calls.length === 0 || isRewritten(asking, given)) return [];
  const answered = new Set([...messages.slice(at + 1), ...given].map(toolCallId));
  const open = calls.filter((call) => call.id !== undefined && !answered.has(call.id));
  if (open.length === 0) return [];
  const stored = new Map(writes.flatMap(([, , value]) => (Array.isArray(value) ? value : [value])).map(byCallId));
  const messageId = typeof asking?.id === "string" ? asking.id : `at:${at}`;
  const rows = await rowsOf(port, { messageId, open, tasks: await tasks() });
  return Promise.all(
    open.map(async (call) => (stored.get(call.id) as ToolMessage | undefined) ?? closing(port, call, rows.get(call))),
  );
}

function callsOf(message: Loose): readonly Call[] {
  return Array.isArray(message?.tool_calls) ? (message.tool_calls as Call[]) : [];
}

function toolCallId(message: unknown): string | undefined {
  const id = (message as Loose)?.tool_call_id;
  return typeof id === "string" ? id : undefined;
}

function byCallId(message: unknown): [string | undefined, unknown] {
  return [toolCallId(message), message];
}

/** As LangGraph's reducer takes messages: another with the same id takes its place, and one mark removes them all. */
function isRewritten(asking: Loose, given: readonly unknown[]): boolean {
  return given.some((message) => {
    const id = (message as Loose)?.id;
    return id === "__remove_all__" || (id !== undefined && id === asking?.id);
  });
}

type Found = Readonly<{ messageId: string; open: readonly Call[]; tasks: readonly string[] }>;

/** What the ledger has of the calls with these arguments: in these tasks, or else under their own keys. */
async function rowsOf(port: EffectsPort, { messageId, open, tasks }: Found): Promise<Map<Call, FoundEffect>> {
  const keyOf = ({ id = "", name }: Call) => keyOfCall(port, { messageId, callId: id, tool: name, epoch: 0 });
  const found = await port.findAll({ keys: open.map(keyOf), tasks });
  const own = (call: Call) => (row: FoundEffect) =>
    row.tool === call.name &&
    row.argsHash === hashOfArgs(call.args) &&
    (tasks.includes(row.task) || row.key === keyOf(call));
  const entries = open.flatMap((call) => {
    const rows = found.filter(own(call));
    const row = rows.find(({ task }) => tasks.includes(task)) ?? rows[0];
    return row === undefined ? [] : [[call, row] as const];
  });
  return new Map(entries);
}

async function closing(port: EffectsPort, call: Call, row: FoundEffect | undefined): Promise<BaseMessage> {
  const told = (content: string) => messageFor(call, content);
  switch (row?.status) {
    case undefined:
      return told(`"${call.name}" has no result: the run was stopped before it was over.`);
    case "asked":
      return told(`"${call.name}" was not done: nobody answered what it asked.`);
    case "failed":
      return told(`"${call.name}" was ${row.compensatedAt === null ? "not done" : "undone"}.`);
    case "started":
    case "unknown":
      await port.doubt(row);
      return told(`"${call.name}" is in doubt: it was called, and nobody knows whether it was done.`);
    case "succeeded":
      // What it returned may have expired.
      return port.resultOf(row).then(
        (value) => resultFor(call, value) ?? told(`"${call.name}" was done.`),
        () => told(`"${call.name}" was done; what it returned isn't kept.`),
      );
  }
}
