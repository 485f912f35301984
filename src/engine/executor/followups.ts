// What is particular to the runs of follow-ups: one begins with what was said elsewhere, the other only adds a message. Both are done once,
// however often an attempt begins anew, since what they store is the run's own first checkpoint.
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { END, START } from "@langchain/langgraph";
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import type { Saver } from "../../checkpoint/saver.js";
import type { Lease } from "../../core/clock.js";
import type { Sql } from "../../core/deps.js";
import type { RunRequest } from "../commands/request.js";
import type { RunnableGraph } from "../graphs.js";

type Config = Parameters<RunnableGraph["updateState"]>[0];

/** Adds the request's messages to the state, and leaves nothing to do. A graph without messages keeps none. */
export async function appendMessages(
  sql: Sql,
  {
    graph,
    config,
    lease,
    append,
  }: Readonly<{ graph: RunnableGraph; config: Config; lease: Lease; append: NonNullable<RunRequest["append"]> }>,
): Promise<void> {
  if (!("messages" in graph.channels)) return;
  if ((await newestCheckpointOfRun(sql, lease)) === undefined) {
    await graph.updateState(config, { messages: append.messages.map(asMessage) }, START);
  }
  const { next } = await graph.getState({ configurable: { thread_id: lease.threadId } });
  if (next.length > 0) await graph.updateState(config, null, END);
}

function asMessage(message: Readonly<Record<string, unknown>>) {
  const fields = { id: String(message["id"]), content: String(message["content"]) };
  return message["type"] === "ai" ? new AIMessage(fields) : new HumanMessage(fields);
}

/**
 * The newest state of another thread as the first of this one, unless it has one. It is nobody's: the run's own begin with its input.
 * Questions that are open there aren't here.
 */
export async function beginFrom(reader: Saver, writer: Saver, lease: Lease, from: string): Promise<void> {
  const own = { configurable: { thread_id: lease.threadId, checkpoint_ns: "" } };
  if ((await reader.getTuple(own)) !== undefined) return;
  const head = await reader.getTuple({ configurable: { thread_id: from, checkpoint_ns: "" } });
  if (head === undefined) return;
  const { checkpoint } = head;
  await writer.put(own, checkpoint, { source: "fork", step: -1, parents: {} }, checkpoint.channel_versions);
  await writer.flushed();
}
