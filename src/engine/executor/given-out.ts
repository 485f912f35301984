// What a graph gives out and doesn't keep in its state, as `structuredResponse` of `createAgent`: values of LangGraph's
// `UntrackedValue`. They are in a run's result, so they are stored beside the checkpoint that they come with.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { givenOutOf } from "../../checkpoint/saver.js";
import type { RunnableGraph } from "../graphs.js";

/** What of a channel tells a value that isn't part of a checkpoint. */
type Channel = Readonly<{
  lc_graph_name: string;
  fromCheckpoint(stored: unknown): Channel;
  isAvailable(): boolean;
  get(): unknown;
}>;

export type GivenOut = Readonly<{
  /** Follows the channels of this copy of a graph; false: it has none of this kind. */
  watch(graph: RunnableGraph): boolean;
  /** What is in them now, by channel: data only, since what lives (a connection, a client) is no result. */
  values(): readonly (readonly [string, unknown])[];
}>;

export function createGivenOut(): GivenOut {
  const live = new Map<string, Channel>();
  return {
    watch(graph) {
      const channels = graph.channels as unknown as Record<string, Channel>;
      const untracked = [graph.outputChannels]
        .flat()
        .map(String)
        .filter((name) => channels[name]?.lc_graph_name === "UntrackedValue");
      if (untracked.length === 0) return false;
      const noted = untracked.map((name) => [name, noting(channels[name] as Channel, (used) => live.set(name, used))]);
      graph.channels = { ...channels, ...Object.fromEntries(noted) };
      return true;
    },
    values: () =>
      [...live].flatMap(([name, channel]) => {
        const value = channel.isAvailable() ? channel.get() : undefined;
        return value !== undefined && isData(value) ? [[name, value] as const] : [];
      }),
  };
}

/** The values of a state with what was given out beside it. */
export function withGivenOut(values: unknown, tuple: CheckpointTuple | undefined): unknown {
  const given = tuple === undefined ? {} : givenOutOf(tuple);
  // An entrypoint returns whatever it likes, and gives out nothing else.
  return Object.keys(given).length === 0 ? values : { ...(values as object), ...given };
}

/** A run makes its own channels from those of its graph. */
function noting(channel: Channel, note: (used: Channel) => void): Channel {
  const fromCheckpoint = (stored: unknown): Channel => {
    const used = channel.fromCheckpoint(stored);
    note(used);
    return used;
  };
  return Object.create(channel, { fromCheckpoint: { value: fromCheckpoint } }) as Channel;
}

/** What is deeper is no answer of a model. */
const MAX_DEPTH = 100;

/** Whether JSON holds it as it is, but for fields without a value. `above` is what it is in, `known` what was looked at. */
function isData(value: unknown, above: readonly object[] = [], known = new Set<object>()): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object") return ["string", "boolean", "undefined"].includes(typeof value);
  if (value === null) return true;
  if (above.length > MAX_DEPTH || above.includes(value)) return false;
  if (known.has(value)) return true;
  known.add(value);
  const isPlain = Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value) as null);
  return isPlain && Object.values(value).every((item) => isData(item, [...above, value], known));
}
