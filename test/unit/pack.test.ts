// Packs: what is written is read back, by us and by gunzip; what is damaged is noticed.
import { createHash, randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { createPackWriter, type PackFile } from "../../src/checkpoint/pack.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { checkpointRecordKey, type PackAddress } from "../../src/checkpoint/pack-types.js";
import type { BodyStore } from "../../src/core/deps.js";

const node = (kind: 0 | 1 | 2, data: Buffer) => ({ kind, data, hash: createHash("sha256").update(data).digest() });
const text = (content: string) => node(0, Buffer.from(content));
const keyOf = (one: { hash: Buffer }) => one.hash.toString("base64url");

async function stored(pack: PackFile): Promise<{ store: BodyStore; address: PackAddress; reads: string[] }> {
  const memory = createMemoryStore();
  await memory.create("t/p.jsonl.gz", pack.bytes);
  const reads: string[] = [];
  const store: BodyStore = {
    ...memory,
    read: (key, range) => {
      reads.push(`${range?.start}-${range?.end}`);
      return memory.read(key, range);
    },
  };
  return { store, address: { packId: "p", key: "t/p.jsonl.gz", offsets: pack.offsets, hashes: pack.hashes }, reads };
}

describe("a pack", () => {
  it("gives back bodies, checkpoints and runs exactly", async () => {
    const bodies = [
      text("ä\u2028\n\0 text"),
      node(1, Buffer.from('{"a":[1,2]}')),
      node(2, randomBytes(5_000)),
      text(""),
    ];
    const record = {
      channels: ["a", "b"],
      versions: ["1.x", "2.y"],
      values: [[0, '{"lc":2,"h":"\\ud800"}']] as const,
      writes: [["task", -1, "~p, 1", "__error__", '"boom\\u0000"']] as const,
    };
    const writer = createPackWriter();
    for (const body of bodies) expect(await writer.addNode(body)).toBe(0);
    await writer.addCheckpoint({ ns: "x|y", checkpointId: "c1", head: '{"v":4,"md":"{}"}', ...record });
    await writer.addRun({
      runId: "r1",
      request: '{\n"input":1}',
      error: null,
      stream: ['{"id":1,"event":"values","data":{"a":1}}'],
      effects: ['{"key":"k","result":"done"}'],
      more: false,
    });
    const { store, address } = await stored(await writer.finish());
    const block = (await createPackReader(store, { cacheBytes: 1e6 }).readBlocks(address, [0])).get(0);
    for (const body of bodies) expect(block?.nodes.get(keyOf(body))).toEqual({ kind: body.kind, data: body.data });
    expect(block?.checkpoints.get(checkpointRecordKey("x|y", "c1"))).toEqual({ head: { v: 4, md: "{}" }, ...record });
    expect(block?.runs.get("r1")).toEqual({
      f: 1,
      request: { input: 1 },
      error: null,
      effects: [{ key: "k", result: "done" }],
      stream: [{ id: 1, event: "values", data: { a: 1 } }],
    });
  });

  it("is read by gunzip alone, every line JSON, the index last", async () => {
    const { pack, bodies } = await largePack();
    const lines = gunzipSync(pack.bytes)
      .toString("utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.slice(0, -1).map((line) => line.d)).toEqual(bodies.map((body) => body.data.toString()));
    const { blocks } = lines.at(-1).index;
    expect(blocks.flatMap((block: { nodes: string[] }) => block.nodes)).toEqual(bodies.map(keyOf));
    expect(blocks.map((block: { start: number }) => block.start)).toEqual(pack.offsets.slice(0, -1));
  });

  it("says in which block each line is", async () => {
    const { pack, bodies, places } = await largePack();
    const { store, address } = await stored(pack);
    expect(pack.hashes.length).toBeGreaterThan(3);
    const blocks = await createPackReader(store, { cacheBytes: 1e6 }).readBlocks(address, places);
    bodies.forEach((body, i) => expect(blocks.get(places[i]!)?.nodes.get(keyOf(body))?.data).toEqual(body.data));
  });

  it("joins the parts of a long run within a block and says when more follows", async () => {
    const writer = createPackWriter();
    const event = (id: number) => JSON.stringify({ id, event: "e", data: id });
    await writer.addRun({ runId: "r", request: '"q"', error: '"e"', stream: [event(1)], effects: [], more: true });
    await writer.addRun({ runId: "r", request: null, error: null, stream: [event(2)], effects: [], more: true });
    await writer.addNode(text("x".repeat(70_000)));
    expect(
      await writer.addRun({ runId: "r", request: null, error: null, stream: [event(3)], effects: [], more: false }),
    ).toBe(1);
    const { store, address } = await stored(await writer.finish());
    const blocks = await createPackReader(store, { cacheBytes: 1e6 }).readBlocks(address, [0, 1]);
    expect(blocks.get(0)?.runs.get("r")).toMatchObject({ request: "q", error: "e", more: true });
    expect(
      blocks
        .get(0)
        ?.runs.get("r")
        ?.stream.map((one) => one.id),
    ).toEqual([1, 2]);
    expect(blocks.get(1)?.runs.get("r")?.more).toBeUndefined();
  });

  it("takes no body that doesn't match its hash, and no text that isn't UTF-8", async () => {
    const writer = createPackWriter();
    await expect(async () => writer.addNode({ ...text("a"), data: Buffer.from("b") })).rejects.toMatchObject({
      code: "body_corrupt",
    });
    await expect(async () => writer.addNode(node(0, Buffer.from([0xff, 0xfe])))).rejects.toMatchObject({
      code: "internal",
    });
  });
});

describe("reading packs", () => {
  it("reads neighbours with one range, and nothing twice", async () => {
    const { pack } = await largePack();
    const { store, address, reads } = await stored(pack);
    const reader = createPackReader(store, { cacheBytes: 1e7 });
    await reader.readBlocks(address, [2, 0, 1, 1]);
    expect(reads).toEqual([`0-${pack.offsets[3]}`]);
    await reader.readBlocks(address, [0, 1, 2]);
    expect(reads).toHaveLength(1);
  });
  it("shares one read between readers at the same time", async () => {
    const { pack } = await largePack();
    const { store, address, reads } = await stored(pack);
    const reader = createPackReader(store, { cacheBytes: 1e7 });
    await Promise.all(Array.from({ length: 20 }, () => reader.readBlocks(address, [1])));
    expect(reads).toHaveLength(1);
  });
  it("keeps no more bytes than it is allowed to", async () => {
    const { pack } = await largePack();
    const { store, address, reads } = await stored(pack);
    const reader = createPackReader(store, { cacheBytes: 200_000 });
    for (const block of [0, 1, 2, 0]) await reader.readBlocks(address, [block]);
    expect(reads).toHaveLength(4);
  });
  it("notices any flipped byte of any block by hash, and reads again once it is mended", async () => {
    const { pack } = await largePack();
    for (const at of [0, 9, pack.offsets[1]! - 1, pack.offsets[1]! + 500]) {
      const bytes = Buffer.from(pack.bytes);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      const { store, address } = await stored({ ...pack, bytes });
      const reader = createPackReader(store, { cacheBytes: 1e7 });
      const damaged = at < pack.offsets[1]! ? 0 : 1;
      const reading = reader.readBlocks(address, [damaged]);
      await expect(reading).rejects.toMatchObject({ code: "body_corrupt", details: { key: "t/p.jsonl.gz" } });
      await expect(reader.readBlocks(address, [1 - damaged])).resolves.toHaveProperty("size", 1);
      await store.delete([address.key]);
      await store.create(address.key, pack.bytes);
      await expect(reader.readBlocks(address, [damaged])).resolves.toHaveProperty("size", 1);
    }
  });
  it("says body_missing when the object is gone, body_corrupt when it was cut", async () => {
    const { pack } = await largePack();
    const { store, address } = await stored({ ...pack, bytes: pack.bytes.subarray(0, pack.offsets[1]! + 10) });
    const reader = createPackReader(store, { cacheBytes: 1e7 });
    await expect(reader.readBlocks(address, [1])).rejects.toMatchObject({ code: "body_corrupt" });
    await store.delete([address.key]);
    const gone = { code: "body_missing", details: { key: "t/p.jsonl.gz" } };
    await expect(reader.readBlocks(address, [1])).rejects.toMatchObject(gone);
  });
});

async function largePack() {
  const writer = createPackWriter();
  const bodies = Array.from({ length: 40 }, () => text(randomBytes(4_000).toString("hex")));
  const places: number[] = [];
  for (const body of bodies) places.push(await writer.addNode(body));
  return { pack: await writer.finish(), bodies, places };
}
