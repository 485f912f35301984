// A message that comes on top of a state with open tool calls: what an earlier run left of them is closed by the same checkpoint.
import { Command } from "@langchain/langgraph";
import type { Saver } from "../../checkpoint/saver.js";
import { closingMessages } from "../../effects/close-calls.js";
import type { EffectsPort } from "../../effects/port.js";
import type { RunnableGraph } from "../graphs.js";
import type { AttemptInput } from "./input.js";

/** The key of LangGraph's own states and of every agent's under which a conversation is. */
const MESSAGES = "messages";

type On = Readonly<{ graph: RunnableGraph; saver: Saver; effects: EffectsPort; threadId: string }>;

/** What the graph gets: the attempt's input, behind answers to the calls that are open where it begins. */
export async function withCallsClosed(on: On, { input, begins, checkpoint }: AttemptInput): Promise<unknown> {
  if (!begins || typeof input !== "object" || input === null || Array.isArray(input)) return input;
  if (input instanceof Command) {
    if (input.update !== undefined) return input;
    const closing = await closingAt(on, checkpoint, []);
    return closing.length === 0 ? input : new Command({ goto: input.goto, update: { [MESSAGES]: closing } });
  }
  const given = [(input as Record<string, unknown>)[MESSAGES] ?? []].flat();
  const closing = await closingAt(on, checkpoint, given);
  return closing.length === 0 ? input : { ...input, [MESSAGES]: [...closing, ...given] };
}

async function closingAt(
  { graph, saver, effects, threadId }: On,
  checkpoint: AttemptInput["checkpoint"],
  given: readonly unknown[],
): ReturnType<typeof closingMessages> {
  if ((checkpoint?.checkpoint_ns ?? "") !== "") return [];
  const id = checkpoint?.checkpoint_id;
  const config = {
    configurable: { thread_id: threadId, checkpoint_ns: "", ...(id === undefined ? {} : { checkpoint_id: id }) },
  };
  const begins = await saver.peek(config);
  if (begins === undefined) return [];
  const messages = begins.checkpoint.channel_values[MESSAGES] ?? (await deltas(graph, config));
  if (!Array.isArray(messages)) return [];
  const tasks = async () => (await graph.getState(config)).tasks.map((task) => task.id);
  const writes = (begins.pendingWrites ?? []).filter(([, channel]) => channel === MESSAGES);
  return closingMessages(effects, { messages, writes, tasks }, given);
}

/** A channel that stores what was added has its value put together by the graph. */
async function deltas(graph: RunnableGraph, config: object): Promise<unknown> {
  const channel = graph.channels[MESSAGES] as { lc_graph_name?: string } | undefined;
  if (channel?.lc_graph_name !== "DeltaChannel") return undefined;
  return ((await graph.getState(config)).values as Record<string, unknown>)[MESSAGES];
}
