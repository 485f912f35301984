// What a client may ask a run to stream, and what to ask LangGraph for so that it can be answered.
import { STREAM_EVENTS_V3_MODES, type StreamMode as LangGraphMode } from "@langchain/langgraph";
import { isPrefixMatch } from "@langchain/langgraph/stream";

export const STREAM_MODES = [
  "values",
  "updates",
  "messages-tuple",
  "messages",
  "events",
  "debug",
  "tasks",
  "checkpoints",
  "custom",
  "tools",
] as const;
export type StreamMode = (typeof STREAM_MODES)[number];

/** Not a client's to ask for: what the thread protocol tells of a run, beside its values, updates and what its nodes write. */
const PROTOCOL_MODE = "protocol";
/** The modes of a run that was started over the thread protocol. */
export const PROTOCOL_MODES: readonly string[] = ["values", "updates", "custom", PROTOCOL_MODE];

/** Modes that show what tasks do before their results are handed over. */
const FROM_INSIDE_TASKS: readonly StreamMode[] = ["messages-tuple", "events", "tools"];

export type StreamPlan = Readonly<{
  modes: ReadonlySet<StreamMode>;
  /** Whether subgraphs show, under `mode|namespace`. */
  subgraphs: boolean;
  /** What the thread protocol needs is stored as well. */
  protocol: boolean;
  langgraph: Readonly<{ streamMode: LangGraphMode[]; subgraphs: boolean; events: boolean; version?: "v3" }>;
}>;

/** The plan for a request's `stream_mode` and `stream_subgraphs`. */
export function planStream(
  request: Readonly<{ stream_mode: readonly string[]; stream_subgraphs: boolean }>,
): StreamPlan {
  const modes = new Set(STREAM_MODES.filter((mode) => request.stream_mode.includes(mode)));
  if (request.stream_mode.includes(PROTOCOL_MODE)) {
    const streamMode = [...STREAM_EVENTS_V3_MODES] as LangGraphMode[];
    return {
      modes,
      subgraphs: true,
      protocol: true,
      langgraph: { streamMode, subgraphs: true, events: false, version: "v3" },
    };
  }
  const wanted = new Set<LangGraphMode>();
  // A task's result tells when what came out of the task may be shown.
  if (FROM_INSIDE_TASKS.some((mode) => modes.has(mode))) wanted.add("tasks");
  for (const mode of modes) {
    if (mode === "messages-tuple") wanted.add("messages");
    else if (mode === "messages") wanted.add("messages").add("values");
    else if (mode !== "events") wanted.add(mode);
  }
  // LangGraph takes an empty list for none given.
  if (wanted.size === 0) wanted.add("custom");
  return {
    modes,
    subgraphs: request.stream_subgraphs,
    protocol: false,
    langgraph: {
      streamMode: [...wanted],
      // Partial messages of models inside subgraphs show in mode "messages" without being asked for; what ends inside them in
      // mode "events", once its task is done.
      subgraphs: request.stream_subgraphs || modes.has("messages") || modes.has("events"),
      events: modes.has("events"),
    },
  };
}

/** True when an event of this name belongs to one of the modes; what belongs to no mode always does. */
export function isOfModes(event: string, modes: ReadonlySet<string>): boolean {
  const name = event.split("|", 1)[0] ?? event;
  if (name === "metadata" || name === "error") return true;
  if (name.startsWith("messages/")) return modes.has("messages");
  return modes.has(name === "messages" ? "messages-tuple" : name);
}

/** True when an event of this name comes from one of the namespaces themselves, not from what they start; what is about the whole run always does. */
export function isOfNamespaces(event: string, namespaces: readonly string[]): boolean {
  const [name, ...namespace] = event.split("|");
  if (name === "metadata" || name === "error") return true;
  return namespaces.some((wanted) => {
    const segments = wanted === "" ? [] : wanted.split("|");
    return segments.length === namespace.length && isPrefixMatch(namespace, segments);
  });
}
