// What the store is indexed by: embeddings of the texts of its items, so that they are found by what they mean. Texts are embedded all at once,
// and before anything is written.
import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { EngineError } from "../core/errors.js";
import { MOST_DIMS } from "./store-json.js";
import { textsAt } from "./texts-at.js";

/** As LangChain has it, and as its stores take it. */
export type Embeddings = Readonly<{
  embedDocuments(texts: string[]): Promise<number[][]>;
  embedQuery(text: string): Promise<number[]>;
}>;
export type EmbeddingsFunction = (texts: string[]) => number[][] | Promise<number[][]>;

export type StoreIndexOptions = Readonly<{
  /** LangChain's `Embeddings`, or a function that gives a vector for each text. */
  embed: Embeddings | EmbeddingsFunction;
  /** Numbers of each vector. */
  dims: number;
  /** Where texts of a value are, like "text", "facts[*].text" or "$" for all of it, which is the default. */
  fields?: readonly string[];
  /** What they are called. Another name has all items embedded anew; unless given, the class and its model are it. */
  name?: string;
}>;

export type Indexed = Readonly<{ value: unknown; paths: readonly string[] | null }>;

export type StoreIndex = Readonly<{
  /** Changes with whatever makes its vectors others. */
  id: string;
  /** Of each item's texts, one after the other, each of length 1. Throws `embedding_failed`, or `config_invalid` when they are not as configured. */
  vectorsOf(items: readonly Indexed[]): Promise<number[][]>;
  /** The same of what is looked for. */
  vectorOf(query: string): Promise<readonly number[]>;
}>;

/** What of the cause is no text: that may quote what was embedded. */
function embeddingFailed(name: string, cause: unknown): EngineError {
  const facts = (cause ?? {}) as Readonly<Record<string, unknown>>;
  const known = [facts["name"], facts["status"], facts["code"]].filter((fact) =>
    ["string", "number"].includes(typeof fact),
  );
  const why = known.length === 0 ? "it gave no reason" : known.join(" ");
  const message = `What makes the store's vectors (${name}) failed: ${why}. Nothing was stored; try again`;
  return new EngineError("embedding_failed", message, { cause });
}

/** Of one item. */
const MOST_TEXTS = 1_000;
/** A search that is read page by page asks for the same again. */
const KEPT_QUERIES = 200;

/** Throws `config_invalid` for dimensions that can't be. */
export function createStoreIndex(options: StoreIndexOptions): StoreIndex {
  const { embed, dims, fields = ["$"], name = embeddingsName(embed) } = options;
  if (!Number.isInteger(dims) || dims < 1 || dims > MOST_DIMS) {
    throw new EngineError("config_invalid", `store.index.dims: must be a whole number from 1 to ${MOST_DIMS}`);
  }
  const { embedDocuments, embedQuery } = bothWays(embed);
  const queries = new LRUCache<string, readonly number[]>({ max: KEPT_QUERIES });
  const failed = (error: unknown): never => {
    throw embeddingFailed(name, error);
  };
  return {
    id: createHash("sha256")
      .update(JSON.stringify([name, dims, fields]))
      .digest("hex"),
    async vectorsOf(items) {
      const texts = items.map(({ value, paths }) => textsOf(value, paths ?? fields));
      const distinct = [...new Set(texts.flat())];
      const vectors = distinct.length === 0 ? [] : await embedDocuments(distinct).catch(failed);
      const byText = new Map(distinct.map((text, n) => [text, ofLength1(vectors[n], dims, name)]));
      return texts.map((of) => of.flatMap((text) => byText.get(text) ?? []));
    },
    async vectorOf(query) {
      const known = queries.get(query);
      if (known !== undefined) return known;
      const vector = ofLength1(await embedQuery(query).catch(failed), dims, name);
      queries.set(query, vector);
      return vector;
    },
  };
}

function bothWays(embed: StoreIndexOptions["embed"]) {
  if (typeof embed !== "function") {
    return {
      embedDocuments: (texts: string[]): Promise<unknown[]> => embed.embedDocuments(texts),
      embedQuery: (text: string): Promise<unknown> => embed.embedQuery(text),
    };
  }
  const embedDocuments = async (texts: string[]): Promise<unknown[]> => embed(texts);
  return { embedDocuments, embedQuery: async (text: string): Promise<unknown> => (await embedDocuments([text]))[0] };
}

/** The class and its model, where there are some: what tells vectors of one from those of another. */
export function embeddingsName(embed: StoreIndexOptions["embed"]): string {
  if (typeof embed === "function") return embed.name === "" ? "embed" : embed.name;
  const { model, modelName, dimensions } = embed as unknown as Readonly<Record<string, unknown>>;
  return [embed.constructor.name, model ?? modelName, dimensions].filter((part) => part !== undefined).join(" ");
}

function textsOf(value: unknown, paths: readonly string[]): string[] {
  const texts = paths.flatMap((path) => textsAt(value, path));
  const found = [...new Set(texts.map((text) => text.trim()).filter((text) => text !== ""))];
  if (found.length <= MOST_TEXTS) return found;
  throw new EngineError(
    "bad_request",
    `index: finds ${found.length} texts in the value, and ${MOST_TEXTS} is the most`,
  );
}

/** Changes no comparison, but Postgres, which keeps and multiplies `real`, refuses what comes too near to 0. */
const NOTHING = 1e-18;

function ofLength1(vector: unknown, dims: number, name: string): number[] {
  if (!Array.isArray(vector) || vector.length !== dims || !vector.every(Number.isFinite)) {
    const got = Array.isArray(vector)
      ? vector.length === dims
        ? "not all numbers"
        : `${vector.length} numbers`
      : "no vector";
    throw new EngineError(
      "config_invalid",
      `The embeddings of the store (${name}) gave ${got} for a text where "store.index.dims" says ${dims}. Nothing was stored.`,
    );
  }
  const numbers = vector as number[];
  const length = Math.hypot(...numbers) || 1;
  return numbers.map((number) => (Math.abs(number / length) < NOTHING ? 0 : number / length));
}
