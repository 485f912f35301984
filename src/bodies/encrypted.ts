// A store whose objects are encrypted, or that makes sure that they needn't be: which keys a store's objects are under is written in
// the store itself, as one small object per key (`encryption/<key id>`), and looked at before anything is read or written.
import type { BodyStore } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { damaged, isSealed, keyIdOf, seal, SEALED_BYTES, type SecretKey, SEGMENT_BYTES, unseal } from "./envelope.js";
import { checkRange } from "./keys.js";
import { probeStore } from "./probe.js";

type Range = Parameters<BodyStore["read"]>[1];

const MARKERS = "encryption/";

export type EncryptionKeys = Readonly<{
  /** What is written from now on. */
  current: SecretKey;
  /** What was written before and may still be read. */
  old: readonly SecretKey[];
}>;

/**
 * With keys: what is written is encrypted, and what was written before without is still read. Null: nothing is encrypted, and
 * a store with encrypted objects is refused. Throws `config_invalid` naming the key ids when a key is missing.
 *
 *     const bodies = encryptedStore(openBodyStore(uri), { current: parseSecretKey(text, "PERDURE_SECRET_KEY"), old: [] });
 */
export function encryptedStore(inner: BodyStore, keys: EncryptionKeys | null): BodyStore {
  const byId = new Map((keys === null ? [] : [...keys.old, keys.current]).map((key) => [key.id, key]));
  let checked: Promise<void> | undefined;

  const check = async (): Promise<void> => {
    const used: string[] = [];
    for await (const name of inner.list(MARKERS)) used.push(name.slice(MARKERS.length));
    const missing = used.filter((id) => !byId.has(id));
    if (missing.length > 0) throw missingKeys(inner.uri, missing, keys);
    if (keys !== null && !used.includes(keys.current.id)) {
      await inner.create(`${MARKERS}${keys.current.id}`, seal(keys.current, MARKERS, Buffer.from("perdure")));
    }
  };
  /** Once; a store that was away is asked again. */
  const ready = (): Promise<void> => {
    checked ??= check().catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  };

  const keyOf = (sealed: Uint8Array): SecretKey => {
    const key = byId.get(keyIdOf(sealed));
    if (key === undefined) throw missingKeys(inner.uri, [keyIdOf(sealed)], keys);
    return key;
  };

  const read: BodyStore["read"] = async (name, range) => {
    const first = Math.floor((range?.start ?? 0) / SEGMENT_BYTES);
    const segments = range && {
      start: first * SEALED_BYTES,
      end: Math.ceil(range.end / SEGMENT_BYTES) * SEALED_BYTES,
    };
    const sealed = await inner.read(name, segments);
    if (!isSealed(sealed)) return readPlain(name, sealed, range);
    const bytes = unseal(keyOf(sealed), name, sealed, { first, whole: range === undefined });
    return range === undefined
      ? bytes
      : bytes.subarray(range.start - first * SEGMENT_BYTES, range.end - first * SEGMENT_BYTES);
  };

  /** Past the end of an encrypted object, or in one from before there was a key: its beginning tells. */
  const readPlain = async (name: string, bytes: Uint8Array, range: Range): Promise<Uint8Array> => {
    if (range === undefined) return bytes;
    if (!isSealed(await inner.read(name, { start: 0, end: SEALED_BYTES }))) return inner.read(name, range);
    if (bytes.length > 0) throw damaged(name);
    return bytes;
  };

  const store: BodyStore = {
    uri: inner.uri,
    async create(name, bytes) {
      await ready();
      return inner.create(name, keys === null ? bytes : seal(keys.current, name, bytes));
    },
    async read(name, range) {
      if (range) checkRange(range);
      await ready();
      return keys === null ? inner.read(name, range) : read(name, range);
    },
    delete: (names) => inner.delete(names),
    list: (prefix) => inner.list(prefix),
    async probe() {
      const notes = await inner.probe();
      await ready();
      if (keys === null) return notes;
      await probeStore(store);
      return [...notes, `encrypted with the key ${keys.current.id}`];
    },
    close: () => inner.close(),
  };
  return store;
}

function missingKeys(uri: string, ids: readonly string[], keys: EncryptionKeys | null): EngineError {
  const which = `${uri} holds objects that are encrypted with ${ids.length === 1 ? "the key" : "the keys"} ${ids.join(", ")}`;
  const what =
    keys === null
      ? "set PERDURE_SECRET_KEY to it"
      : `PERDURE_SECRET_KEY is the key ${keys.current.id}: if it took the other's place, put that into PERDURE_OLD_SECRET_KEYS; else it is wrong`;
  return new EngineError("config_invalid", `${which}; ${what}`, { details: { key_ids: ids } });
}
