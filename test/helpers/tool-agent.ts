// Agents around a tool node: a model that calls tools in the first turn of each message, and says "done" in the next.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { ToolNode } from "@langchain/langgraph/prebuilt";
import type { TestEngine } from "./engine.js";
import { until } from "./wait.js";

export type PlannedCall = Readonly<{ name: string; args: Readonly<Record<string, unknown>> }>;

export const GO = { messages: [{ type: "human", content: "go" }] };

/** `calls` are made after each message of a person; the model refuses a history in which a call has no answer, as providers do. */
export function toolAgent(node: unknown, calls: readonly PlannedCall[]) {
  let ids = 0;
  return new StateGraph(MessagesAnnotation)
    .addNode("model", ({ messages }) => {
      refuseUnanswered(messages);
      if (messages.at(-1)?.getType() !== "human") return { messages: [new AIMessage("done")] };
      const tool_calls = calls.map((call) => ({ ...call, id: `call_${(ids += 1)}`, type: "tool_call" as const }));
      return { messages: [new AIMessage({ content: "", tool_calls })] };
    })
    .addNode("tools", node as ToolNode)
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) =>
      ((messages.at(-1) as AIMessage).tool_calls ?? []).length > 0 ? "tools" : END,
    )
    .addEdge("tools", "model")
    .compile();
}

/** Anthropic and OpenAI both answer 400 when something stands between a call and its result, or a result is missing or doubled. */
function refuseUnanswered(messages: readonly BaseMessage[]): void {
  let open: (string | undefined)[] = [];
  for (const message of messages) {
    if (message.getType() === "tool") {
      const id = (message as BaseMessage & { tool_call_id: string }).tool_call_id;
      if (!open.includes(id)) throw new Error(`400: ${id} answers no open tool call`);
      open = open.filter((each) => each !== id);
      continue;
    }
    if (open.length > 0) throw new Error(`400: tool calls without an answer: ${open.join(", ")}`);
    open = ((message as AIMessage).tool_calls ?? []).map(({ id }) => id);
  }
}

type Ended = Readonly<{ threadId: string; runId: string; status: string }>;

/** Makes a run on a thread, a new one unless given, and waits until it ends or waits. */
export async function runToEnd(
  { client }: TestEngine,
  payload: object,
  { threadId, graphId = "agent" }: Readonly<{ threadId?: string; graphId?: string }> = {},
): Promise<Ended> {
  const thread = threadId ?? (await client.threads.create()).thread_id;
  const { run_id: runId } = await client.runs.create(thread, graphId, payload);
  return { threadId: thread, runId, status: await statusAtEnd({ client }, thread, runId) };
}

export async function statusAtEnd({ client }: Pick<TestEngine, "client">, threadId: string, runId: string) {
  let status = "";
  await until("the run to end", async () => {
    ({ status } = await client.runs.get(threadId, runId));
    return !["pending", "running"].includes(status);
  });
  return status;
}

/** As if the worker had died: its lease is over, and another attempt begins. */
export async function takeOver({ deps, sweep }: TestEngine, runId: string): Promise<void> {
  await deps.db.query("update runs set lease_expires_at = clock_timestamp() where run_id = $1", [runId]);
  await until("the lease to be taken", async () => (await sweep()) > 0);
}

export async function openQuestions({ client }: TestEngine, threadId: string) {
  const { interrupts } = await client.threads.get(threadId);
  return Object.values(interrupts ?? {})
    .flat()
    .map(({ id, value }) => ({ id: id as string, value: value as Record<string, unknown> }));
}

type WireMessage = Readonly<{ type: string; content: string; status?: string; tool_calls?: unknown[] }>;

export async function messagesOf({ client }: TestEngine, threadId: string): Promise<readonly WireMessage[]> {
  const { values } = await client.threads.getState<{ messages: WireMessage[] }>(threadId);
  return values.messages;
}

export async function toolTexts(engine: TestEngine, threadId: string): Promise<string[]> {
  return (await messagesOf(engine, threadId)).filter(({ type }) => type === "tool").map(({ content }) => content);
}

/** Rows of the ledger, of one run or all, as they were made. */
export async function ledger({ deps }: TestEngine, runId: string | null = null) {
  const { rows } = await deps.db.query<Record<string, unknown>>(
    `select key, tool, kind, policy, status, attempts, resolution, error_code, question, result
    from effects
    where kind <> 'none' and ($1::uuid is null or run_id = $1)
    order by created_at, tool`,
    [runId],
  );
  return rows;
}

/** Something that tools wait for: `open` lets all through. */
export function door() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
