// The embeddings that langgraph.json names for the store: a module of the project, or a provider's model like "openai:text-embedding-3-small",
// whose LangChain package the project has.
import { EngineError } from "../core/errors.js";
import { importSource, type ModuleSource, packageFile } from "./module-source.js";
import {
  createStoreIndex,
  type Embeddings,
  type EmbeddingsFunction,
  embeddingsName,
  type StoreIndex,
  type StoreIndexOptions,
} from "./store-index.js";
import { EMBEDDINGS, type NamedIndex, type StoreTtl } from "./store-json.js";

/** Loads them; throws `config_invalid` or `graph_invalid` saying what to change. */
export async function loadStoreIndex(named: NamedIndex): Promise<StoreIndex> {
  const { dims, fields } = named;
  const embed = named.source === null ? await ofProvider(named) : await ofModule(named, named.source);
  return createStoreIndex({ embed, dims, ...(fields === undefined ? {} : { fields }), name: nameOf(named, embed) });
}

async function ofModule({ embed }: NamedIndex, source: ModuleSource): Promise<Embeddings | EmbeddingsFunction> {
  if (source.missing !== undefined && !/[./]/.test(embed)) throw unknownProvider(embed);
  const where = `store.index.embed (${source.file}, export "${source.exportName}")`;
  return asEmbeddings(await importSource(source, where), where);
}

function unknownProvider(embed: string): EngineError {
  const known = Object.keys(EMBEDDINGS).join(", ");
  return new EngineError(
    "config_invalid",
    `"store.index.embed": ${JSON.stringify(embed)} is neither a module, like ./embeddings.ts:name, nor a model of ${known}`,
  );
}

async function ofProvider({ dir, embed }: NamedIndex): Promise<Embeddings | EmbeddingsFunction> {
  const [provider = "", ...model] = embed.split(":");
  const [package_, class_] = EMBEDDINGS[provider] ?? ["", ""];
  const where = `"store.index.embed" (${embed})`;
  const file = packageFile(dir, package_);
  if (file === null) {
    throw new EngineError(
      "config_invalid",
      `${where} needs ${package_}, which isn't installed: npm install ${package_}`,
    );
  }
  const Class = (await importSource({ file, exportName: class_ }, `${where}: ${package_}'s ${class_}`)) as Model;
  try {
    return asEmbeddings(new Class({ model: model.join(":") }), where);
  } catch (cause) {
    // Most often a key that the environment lacks, and the provider's class says which.
    throw new EngineError("config_invalid", `${where} can't be used: ${(cause as Error).message}`, { cause });
  }
}
type Model = new (options: Readonly<{ model: string }>) => unknown;

/** What a program says of its store. */
export type StoreOptions = Readonly<{
  /** How long items stay, in minutes, unless they are put with something else. */
  ttl?: StoreTtl;
  /** What items are found by; by words unless given. */
  index?: StoreIndexOptions;
}>;

/** Throws `config_invalid` for an index that can't be. */
export function storeFrom({ ttl, index }: StoreOptions) {
  const storeIndex =
    index === undefined ? null : createStoreIndex({ ...index, embed: asEmbeddings(index.embed, "store.index.embed") });
  return { storeTtl: ttl ?? null, storeIndex };
}

/** Throws `config_invalid` for what makes no vectors. */
function asEmbeddings(value: unknown, where: string): Embeddings | EmbeddingsFunction {
  if (typeof value === "function" && !/^class\b/.test(Function.prototype.toString.call(value))) {
    return value as EmbeddingsFunction;
  }
  const { embedDocuments, embedQuery } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof embedDocuments === "function" && typeof embedQuery === "function") return value as Embeddings;
  throw new EngineError(
    "config_invalid",
    `${where} makes no embeddings: export an instance of LangChain's Embeddings, or a function that takes texts and gives a vector for each`,
  );
}

/** A module's code isn't looked at: what it exports is told from others by its place, its class and its model. */
function nameOf({ embed }: NamedIndex, loaded: Embeddings | EmbeddingsFunction): string {
  return typeof loaded === "function" ? embed : `${embed} ${embeddingsName(loaded)}`;
}
