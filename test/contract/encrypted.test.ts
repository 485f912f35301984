// Encrypted stores: nothing of the content is in the objects, nothing can be changed or exchanged unnoticed, keys can be replaced,
// and who has the wrong one is told so before anything is read.
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { encryptedStore, type EncryptionKeys } from "../../src/bodies/encrypted.js";
import { parseSecretKey, SEALED_BYTES, SEGMENT_BYTES } from "../../src/bodies/envelope.js";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { BodyStore } from "../../src/core/deps.js";

const newKey = () => parseSecretKey(randomBytes(32).toString("base64"), "PERDURE_SECRET_KEY");
const keys = (current = newKey(), ...old: EncryptionKeys["old"]): EncryptionKeys => ({ current, old });
const NAME = "default/thread/pack.jsonl.gz";
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

async function replace(store: BodyStore, name: string, bytes: Uint8Array): Promise<void> {
  await store.delete([name]);
  await store.create(name, bytes);
}

it("keeps no byte of the content, and the same content twice looks different", async () => {
  const inner = createMemoryStore();
  const store = encryptedStore(inner, keys());
  const content = Buffer.from("the content of a message ".repeat(10_000));
  await store.create(NAME, content);
  await store.create("other/thread/pack.jsonl.gz", content);
  const [one, two] = [await inner.read(NAME), await inner.read("other/thread/pack.jsonl.gz")].map(Buffer.from);
  expect(one?.includes("content of")).toBe(false);
  expect(one?.subarray(24).equals(two?.subarray(24) as Buffer)).toBe(false);
  expect(content.equals(await store.read(NAME))).toBe(true);
});

it("reads every range as a store in the clear does, across segments and past the end", async () => {
  const store = encryptedStore(createMemoryStore(), keys());
  const sizes = [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES];
  for (const size of sizes) {
    const content = randomBytes(size);
    await store.create(`default/t/${size}`, content);
    expect(content.equals(await store.read(`default/t/${size}`))).toBe(true);
    const edges = [
      0,
      1,
      SEGMENT_BYTES - 1,
      SEGMENT_BYTES,
      SEGMENT_BYTES + 7,
      3 * SEGMENT_BYTES,
      3 * SEGMENT_BYTES + 50,
    ];
    for (const start of edges) {
      for (const end of edges.filter((edge) => edge > start)) {
        const read = await store.read(`default/t/${size}`, { start, end });
        expect(Buffer.from(read).equals(content.subarray(start, end)), `${size}: [${start}, ${end})`).toBe(true);
      }
    }
  }
});

it("notices what was changed, cut off, put in another order or under another name", async () => {
  const inner = createMemoryStore();
  const store = encryptedStore(inner, keys());
  await store.create(NAME, randomBytes(3 * SEGMENT_BYTES));
  await store.create("default/other/pack.jsonl.gz", randomBytes(3 * SEGMENT_BYTES));
  const sealed = Buffer.from(await inner.read(NAME));
  const segment = (index: number) => sealed.subarray(index * SEALED_BYTES, (index + 1) * SEALED_BYTES);
  const flipped = (at: number) => {
    const copy = Buffer.from(sealed);
    copy[at] = (copy[at] ?? 0) ^ 1;
    return copy;
  };
  const changed = [
    ...[3, 12, 30, SEALED_BYTES - 1, 2 * SEALED_BYTES + 3].map(flipped),
    sealed.subarray(0, 2 * SEALED_BYTES),
    sealed.subarray(0, sealed.length - 1),
    Buffer.concat([segment(1), segment(0), segment(2)]),
    Buffer.concat([sealed, segment(2)]),
    Buffer.from(await inner.read("default/other/pack.jsonl.gz")),
  ];
  for (const bytes of changed) {
    await replace(inner, NAME, bytes);
    await expect(store.read(NAME)).rejects.toMatchObject({ code: "body_corrupt", details: { key: NAME } });
  }
});

it("reads what was written under a former key and in the clear, and writes under the new one", async () => {
  const inner = createMemoryStore();
  const [first, second] = [newKey(), newKey()];
  const plain = randomBytes(SEGMENT_BYTES * 2);
  await inner.create("default/t/plain", plain);
  await encryptedStore(inner, keys(first)).create("default/t/first", Buffer.from("first"));
  const store = encryptedStore(inner, keys(second, first));
  await store.create("default/t/second", Buffer.from("second"));
  expect([text(await store.read("default/t/first")), text(await store.read("default/t/second"))]).toEqual([
    "first",
    "second",
  ]);
  expect(plain.equals(await store.read("default/t/plain"))).toBe(true);
  for (const [start, end] of [
    [1, 3],
    [SEGMENT_BYTES + 5, SEGMENT_BYTES + 90],
    [2 * SEGMENT_BYTES - 2, 2 * SEGMENT_BYTES + 9],
  ] as const)
    expect(plain.subarray(start, end).equals(await store.read("default/t/plain", { start, end }))).toBe(true);
  expect(await store.probe()).toEqual([`encrypted with the key ${second.id}`]);
});

it("with a wrong key, or none, nothing is read or written, and the key that is missing is named without its bytes", async () => {
  const inner = createMemoryStore();
  const right = newKey();
  await encryptedStore(inner, keys(right)).create(NAME, Buffer.from("x"));
  for (const wrong of [keys(), null]) {
    const store = encryptedStore(inner, wrong);
    const refused = {
      code: "config_invalid",
      message: expect.stringMatching(new RegExp(`${right.id}.*PERDURE_SECRET_KEY`)) as string,
    };
    for (const attempt of [
      () => store.probe(),
      () => store.read(NAME),
      () => store.create("default/t/new", Buffer.from("x")),
    ]) {
      const error: unknown = await attempt().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject(refused);
      expect(String((error as Error).message)).not.toContain(right.secret.toString("base64"));
    }
  }
  await expect(inner.read("default/t/new")).rejects.toMatchObject({ code: "body_missing" });
});

it("takes 32 bytes in hex or base64 for a key and nothing else", () => {
  const bytes = randomBytes(32);
  const [hex, base64] = [bytes.toString("hex"), bytes.toString("base64")].map((key) => parseSecretKey(key, "X"));
  expect(hex).toEqual(base64);
  for (const wrong of ["", "short", `${bytes.toString("base64")}AA`, `${bytes.toString("hex")}00`]) {
    expect(() => parseSecretKey(wrong, "PERDURE_SECRET_KEY")).toThrow(/PERDURE_SECRET_KEY must be 32 bytes/);
  }
});
