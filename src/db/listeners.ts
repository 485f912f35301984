// Who listens in this process, to a topic or to one id of it: thousands may each wait for a run of their own.
import type { Topic } from "../core/deps.js";

export type OnNotify = (id: string | undefined) => void;

export type Listeners = Readonly<{
  /** With an `id`: only to that, and to what is about any. */
  add(topic: Topic, onNotify: OnNotify, id?: string): () => void;
  tell(topic: Topic, id: string | undefined): void;
  topics(): Topic[];
}>;

export function createListeners(onThrow: (error: unknown) => void): Listeners {
  /** By id; those of all ids under undefined. */
  const topics = new Map<Topic, Map<string | undefined, Set<OnNotify>>>();

  const call = (listeners: Iterable<OnNotify>, id: string | undefined): void => {
    for (const onNotify of listeners) {
      try {
        onNotify(id);
      } catch (error) {
        onThrow(error);
      }
    }
  };
  return {
    add(topic, onNotify, id) {
      const ofTopic = topics.get(topic) ?? new Map<string | undefined, Set<OnNotify>>();
      topics.set(topic, ofTopic);
      const ofId = ofTopic.get(id) ?? new Set();
      ofTopic.set(id, ofId.add(onNotify));
      return () => {
        ofId.delete(onNotify);
        if (ofId.size === 0 && ofTopic.get(id) === ofId) ofTopic.delete(id);
      };
    },
    tell(topic, id) {
      const ofTopic = topics.get(topic);
      if (ofTopic === undefined) return;
      if (id === undefined) for (const listeners of [...ofTopic.values()]) call(listeners, id);
      else for (const listeners of [ofTopic.get(id), ofTopic.get(undefined)]) call(listeners ?? [], id);
    },
    topics: () => [...topics.keys()],
  };
}
