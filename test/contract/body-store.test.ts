// What every object store keeps, whatever it is made of.
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { encryptedStore } from "../../src/bodies/encrypted.js";
import { parseSecretKey } from "../../src/bodies/envelope.js";
import { createFsStore } from "../../src/bodies/fs.js";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { BodyStore } from "../../src/core/deps.js";
import { describeS3, newS3Store } from "../helpers/s3-store.js";

function keepsTheContract(open: () => Promise<BodyStore>): void {
  let store: BodyStore;
  beforeAll(async () => {
    store = await open();
  });
  afterAll(() => store.close());
  const text = async (key: string, range?: { start: number; end: number }) =>
    Buffer.from(await store.read(key, range)).toString();
  const listed = async (prefix: string) => {
    const keys: string[] = [];
    for await (const key of store.list(prefix)) keys.push(key);
    return keys.sort();
  };

  it("gives back the bytes it was given", async () => {
    const bytes = randomBytes(300_000);
    expect(await store.create("a/bytes.bin", bytes)).toBe(true);
    expect(Buffer.from(await store.read("a/bytes.bin")).equals(bytes)).toBe(true);
  });
  it("keeps an empty object and one of 12 MB", async () => {
    const large = randomBytes(12 << 20);
    await store.create("sizes/empty", Buffer.alloc(0));
    await store.create("sizes/large", large);
    expect((await store.read("sizes/empty")).length).toBe(0);
    expect(Buffer.from(await store.read("sizes/large")).equals(large)).toBe(true);
    const part = Buffer.from(await store.read("sizes/large", { start: 5 << 20, end: 6 << 20 }));
    expect(part.equals(large.subarray(5 << 20, 6 << 20))).toBe(true);
  });
  it("doesn't change an object that exists", async () => {
    expect(await store.create("once", Buffer.from("first"))).toBe(true);
    expect(await store.create("once", Buffer.from("second"))).toBe(false);
    expect(await text("once")).toBe("first");
  });
  it("lets one of twenty creators win", async () => {
    const writers = Array.from({ length: 20 }, (_, n) => `writer ${n}`);
    const won = await Promise.all(writers.map((writer) => store.create("race/key", Buffer.from(writer))));
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await text("race/key")).toBe(writers[won.indexOf(true)]);
  });
  it("reads ranges, cut at the object's end", async () => {
    await store.create("digits", Buffer.from("0123456789"));
    expect(await text("digits", { start: 0, end: 1 })).toBe("0");
    expect(await text("digits", { start: 2, end: 6 })).toBe("2345");
    expect(await text("digits", { start: 8, end: 50 })).toBe("89");
    expect(await text("digits", { start: 50, end: 60 })).toBe("");
    await expect(async () => store.read("digits", { start: 3, end: 3 })).rejects.toMatchObject({ code: "internal" });
  });
  it("says body_missing for what isn't there", async () => {
    await expect(store.read("no/such")).rejects.toMatchObject({ code: "body_missing", details: { key: "no/such" } });
    await expect(store.read("no/such", { start: 0, end: 4 })).rejects.toMatchObject({ code: "body_missing" });
  });
  it("lists by prefix, across folders and inside of names", async () => {
    for (const key of ["list/t1/a", "list/t1/b.gz", "list/t12/c", "list/other"])
      await store.create(key, Buffer.from("x"));
    expect(await listed("list/t1/")).toEqual(["list/t1/a", "list/t1/b.gz"]);
    expect(await listed("list/t1")).toEqual(["list/t1/a", "list/t1/b.gz", "list/t12/c"]);
    expect(await listed("list/")).toHaveLength(4);
    expect(await listed("list/none/")).toEqual([]);
    expect(await listed("")).toEqual(expect.arrayContaining(["list/other"]));
  });
  it("lists and deletes more than one page", async () => {
    const keys = Array.from({ length: 1_100 }, (_, n) => `many/${String(n).padStart(4, "0")}`);
    for (let at = 0; at < keys.length; at += 100) {
      await Promise.all(keys.slice(at, at + 100).map((key) => store.create(key, Buffer.from("x"))));
    }
    expect(await listed("many/")).toEqual(keys);
    await store.delete(keys);
    expect(await listed("many/")).toEqual([]);
  });
  it("deletes what exists among the keys, and lets the name be used again", async () => {
    await store.create("gone/a", Buffer.from("1"));
    await store.delete(["gone/a", "gone/never"]);
    await store.delete(["gone/a"]);
    await store.delete([]);
    await expect(store.read("gone/a")).rejects.toMatchObject({ code: "body_missing" });
    expect(await store.create("gone/a", Buffer.from("2"))).toBe(true);
    expect(await text("gone/a")).toBe("2");
  });
  it("creates in a folder that is being emptied", async () => {
    for (let round = 0; round < 10; round++) {
      await store.create("churn/x/old", Buffer.from("1"));
      await Promise.all([store.delete(["churn/x/old"]), store.create(`churn/x/${round}`, Buffer.from("2"))]);
      expect(await text(`churn/x/${round}`)).toBe("2");
      await store.delete([`churn/x/${round}`]);
    }
  });
  it("refuses keys that lead elsewhere", async () => {
    for (const key of [
      "../up",
      "a/../../up",
      "/abs",
      "a//b",
      "a/",
      "",
      ".",
      ".tmp/x",
      "a\0b",
      "a\\b",
      "ü",
      "x".repeat(800),
    ]) {
      await expect(async () => store.create(key, Buffer.from("x"))).rejects.toMatchObject({ code: "internal" });
      await expect(async () => store.read(key)).rejects.toMatchObject({ code: "internal" });
      await expect(async () => store.delete([key])).rejects.toMatchObject({ code: "internal" });
    }
    await expect(async () => listed("../")).rejects.toMatchObject({ code: "internal" });
  });
  it("passes its own probe and leaves nothing of it", async () => {
    await store.probe();
    expect(await listed("probe/")).toEqual([]);
  });
}

/** Encrypted with a key of its own. */
function encrypted(inner: BodyStore): BodyStore {
  const current = parseSecretKey(randomBytes(32).toString("hex"), "PERDURE_SECRET_KEY");
  return encryptedStore(inner, { current, old: [] });
}

describe("bodies in memory", () => keepsTheContract(async () => createMemoryStore()));
describe("bodies in memory, encrypted", () => keepsTheContract(async () => encrypted(createMemoryStore())));

describe("bodies in a folder", () => {
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(path.join(os.tmpdir(), "perdure-bodies-"));
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  keepsTheContract(async () => createFsStore(path.join(root, "deep", "bodies")));

  it("ignores what a crashed writer left, and leaves nothing itself", async () => {
    const folder = path.join(root, "leftovers");
    const store = createFsStore(folder);
    await store.create("t/one", Buffer.from("1"));
    await writeFile(path.join(folder, ".tmp", randomUUID()), "half of a bo");
    expect(await store.create("t/two", Buffer.from("2"))).toBe(true);
    const keys: string[] = [];
    for await (const key of store.list("")) keys.push(key);
    expect(keys.sort()).toEqual(["t/one", "t/two"]);
    expect(await readdir(path.join(folder, ".tmp"))).toHaveLength(1);
  });
  it("doesn't take an unmounted folder for lost bodies", async () => {
    const folder = path.join(root, "unmounted");
    const store = createFsStore(folder);
    await store.create("t/one", Buffer.from("1"));
    await rm(folder, { recursive: true });
    await expect(store.read("t/one")).rejects.toMatchObject({ code: "unavailable" });
  });
  it("says config_invalid where a folder can't be", async () => {
    const file = path.join(root, "a-file");
    await writeFile(file, "");
    await expect(createFsStore(path.join(file, "bodies")).probe()).rejects.toMatchObject({ code: "config_invalid" });
  });
});

describeS3("bodies in S3", (server) => {
  keepsTheContract(() => newS3Store(server));
});
describeS3("bodies in S3, encrypted", (server) => {
  keepsTheContract(async () => encrypted(await newS3Store(server)));
});
