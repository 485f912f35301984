// Bodies in this process's memory: for unit tests and throw-away engines.
import type { BodyStore } from "../core/deps.js";
import { bodyMissing, checkKey, checkKeyPrefix, checkRange } from "./keys.js";
import { probeStore } from "./probe.js";

/** A store that lives as long as the process. */
export function createMemoryStore(): BodyStore {
  const objects = new Map<string, Uint8Array>();
  const uri = "memory:";

  const store: BodyStore = {
    uri,
    async create(key, bytes) {
      checkKey(key);
      if (objects.has(key)) return false;
      objects.set(key, Uint8Array.from(bytes));
      return true;
    },
    async read(key, range) {
      checkKey(key);
      if (range) checkRange(range);
      const bytes = objects.get(key);
      if (bytes === undefined) throw bodyMissing(uri, key);
      return bytes.slice(range?.start, range?.end);
    },
    async delete(keys) {
      for (const key of keys) objects.delete(checkKey(key));
    },
    async *list(prefix) {
      checkKeyPrefix(prefix);
      for (const key of [...objects.keys()]) if (key.startsWith(prefix)) yield key;
    },
    probe: () => probeStore(store),
    async close() {},
  };
  return store;
}
