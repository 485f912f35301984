// The embeddings that langgraph.json names: a module of the project's, or a provider's model whose package it has.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { loadStoreIndex } from "../../src/engine/embeddings.js";
import { readProject } from "../../src/engine/langgraph-json.js";
import { namedFiles } from "../../src/engine/module-files.js";

const MODULE = `
export const embed = async (texts) => texts.map((text) => [text.length, 0]);
export class Model { embedDocuments() {} embedQuery() {} }
export const model = Object.assign(Object.create({ constructor: Model }), {
  model: "m1",
  embedDocuments: async (texts) => texts.map(() => [0, 3]),
  embedQuery: async () => [0, 3],
});
export const seven = 7;
`;
/** What a provider's package looks like. */
const OPENAI = `
export class OpenAIEmbeddings {
  constructor({ model }) {
    if (model === "no-key") throw new Error("OPENAI_API_KEY is missing");
    this.model = model;
  }
  async embedDocuments(texts) { return texts.map(() => [1, 0]); }
  async embedQuery() { return [1, 0]; }
}
`;

async function projectWith(index: unknown) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "perdure-embeddings-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const openai = path.join(dir, "node_modules/@langchain/openai");
  await mkdir(openai, { recursive: true });
  const files = {
    "package.json": `{"type":"module"}`,
    "langgraph.json": JSON.stringify({ graphs: { a: "./a.ts:graph" }, store: { index } }),
    "embeddings.mjs": MODULE,
    "node_modules/@langchain/openai/package.json": `{"name":"@langchain/openai","type":"module","exports":"./index.js"}`,
    "node_modules/@langchain/openai/index.js": OPENAI,
  };
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(dir, name), content);
  return readProject(path.join(dir, "langgraph.json"));
}

async function load(index: unknown) {
  const { storeIndex } = await projectWith(index);
  if (storeIndex === null) throw new Error("langgraph.json has no index");
  return loadStoreIndex(storeIndex);
}

it.each([
  ["a function", "./embeddings.mjs:embed", [1, 0]],
  ["an instance", "./embeddings.mjs:model", [0, 1]],
  ["a provider's model", "openai:text-embedding-3-small", [1, 0]],
])("%s makes vectors of length 1", async (_, embed, vector) => {
  const index = await load({ embed, dims: 2, fields: ["text"] });
  expect(await index.vectorOf("tea")).toEqual(vector);
  expect(await index.vectorsOf([{ value: { text: "tea" }, paths: null }])).toEqual([vector]);
});

it("whatever makes other vectors is another index", async () => {
  const same = { embed: "./embeddings.mjs:embed", dims: 2 };
  const others = [
    same,
    { ...same, dims: 3 },
    { ...same, fields: ["text"] },
    { ...same, embed: "./embeddings.mjs:model" },
    { ...same, embed: "openai:text-embedding-3-small" },
    { ...same, embed: "openai:text-embedding-3-large" },
  ];
  const ids = await Promise.all(others.map(async (index) => (await load(index)).id));
  expect(new Set(ids).size).toBe(others.length);
  expect((await load(same)).id).toBe(ids[0]);
});

it.each([
  ["./embeddings.mjs:nothing", "does not exist; the file exports"],
  ["./embeddings.mjs:seven", "makes no embeddings: export an instance"],
  ["./embeddings.mjs:Model", "makes no embeddings: export an instance"],
  ["./missing.mjs:embed", "missing.mjs"],
  ["cohere:embed-english-v3.0", "npm install @langchain/cohere"],
  ["openai:no-key", "OPENAI_API_KEY is missing"],
  ["opanai:text-embedding-3-small", "is neither a module, like ./embeddings.ts:name, nor a model of azure_openai"],
])("%s is refused, saying what to do", async (embed, message) => {
  await expect(load({ embed, dims: 2 })).rejects.toThrow(message);
});

it.each([
  [{ dims: 2 }, '"store.index.embed": must be a module'],
  [{ embed: "./e.ts:e" }, '"store.index.dims"'],
  [{ embed: "./e.ts:e", dims: 0 }, '"store.index.dims"'],
  [{ embed: "./e.ts:e", dims: 16_001 }, '"store.index.dims"'],
  [{ embed: "./e.ts:e", dims: 2, fields: [] }, '"store.index.fields"'],
])("langgraph.json with %j is refused", async (index, message) => {
  await expect(projectWith(index)).rejects.toThrow(message);
});

it("the module is one of the project's files, and what other tools read beside it is named", async () => {
  const project = await projectWith({ embed: "./embeddings.mjs:embed", dims: 2, distance_type: "l2" });
  expect(namedFiles(project)).toEqual([path.join(project.dir, "embeddings.mjs")]);
  expect(project.warnings).toEqual(['"store.index.distance_type" has no effect in this version of perdure']);
  expect(namedFiles(await projectWith({ embed: "openai:text-embedding-3-small", dims: 2 }))).toEqual([]);
});
