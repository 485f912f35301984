// What looks at the protocol's events as they pass and adds to them: LangGraph's own account of when subgraphs begin and end,
// and the stream transformers of the graph, if it has any.
import {
  createLifecycleTransformer,
  isNativeTransformer,
  type ProtocolEvent,
  type StreamTransformer,
} from "@langchain/langgraph";
import { isStreamChannel, type StreamChannel } from "@langchain/langgraph/stream";

/** What a graph's own transformer promises when its run is over is waited for as long. */
const LAST_WORDS_MS = 5_000;

export type TransformerFactory = () => StreamTransformer;

export type Passed = Readonly<{
  /** What was made of it; comes before it. */
  made: readonly ProtocolEvent[];
  /** False: it is not to be told itself. */
  kept: boolean;
}>;

export type Transformers = Readonly<{
  pass(event: ProtocolEvent): Passed;
  /** The graph has come to its end: what is left to be said. */
  end(): Promise<readonly ProtocolEvent[]>;
  /** It has failed. */
  fail(error: unknown): void;
}>;

export function createTransformers(own: readonly TransformerFactory[]): Transformers {
  const made: ProtocolEvent[] = [];
  const channels: { channel: StreamChannel<unknown>; name: string; read: number }[] = [];
  const promised: (readonly [name: string, value: Promise<unknown>])[] = [];
  const all: StreamTransformer[] = [];

  const through = (event: ProtocolEvent): boolean => {
    const kept = all.map((transformer) => transformer.process(event)).every((keeps) => keeps);
    for (const entry of channels) {
      for (; entry.read < entry.channel.size; entry.read += 1) {
        made.push(custom(event.params.namespace, entry.name, entry.channel.get(entry.read)));
      }
    }
    return kept;
  };
  const add = (transformer: StreamTransformer): void => {
    all.push(transformer);
    transformer.onRegister?.({
      push(_namespace, event) {
        if (through(event)) made.push(event);
      },
    });
    const projection: unknown = transformer.init();
    if (isNativeTransformer(transformer) || typeof projection !== "object" || projection === null) return;
    for (const [key, value] of Object.entries(projection)) {
      if (isStreamChannel(value)) {
        if (value.channelName !== undefined) channels.push({ channel: value, name: value.channelName, read: 0 });
      } else if (isPromiseLike(value)) promised.push([key, Promise.resolve(value)]);
    }
  };
  add(createLifecycleTransformer({ emitRootOnRegister: false }));
  for (const factory of own) add(factory());

  return {
    pass(event) {
      const kept = through(event);
      return { made: made.splice(0), kept };
    },
    async end() {
      const last = all.map(async (transformer) => transformer.finalize?.());
      const said = promised.map(async ([name, value]) => made.push(custom([], name, await value)));
      await Promise.race([Promise.allSettled([...last, ...said]), after(LAST_WORDS_MS)]);
      return made.splice(0);
    },
    fail(error) {
      for (const [, value] of promised) value.catch(() => undefined);
      for (const transformer of all) transformer.fail?.(error);
    },
  };
}

function custom(namespace: readonly string[], name: string, payload: unknown): ProtocolEvent {
  const params = { namespace: [...namespace], timestamp: Date.now(), data: { name, payload } };
  return { type: "event", seq: 0, method: "custom", params };
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null)?.then === "function";
}
