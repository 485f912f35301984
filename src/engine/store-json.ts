// The part of langgraph.json that says how the store is kept: how long, and what it is indexed by.
import { z } from "zod";
import { type ModuleSource, moduleSource } from "./module-source.js";

/** Items of the store that expire, in minutes. */
export type StoreTtl = Readonly<{
  defaultTtl?: number | undefined;
  refreshOnRead?: boolean | undefined;
  sweepIntervalMinutes?: number | undefined;
}>;

export type NamedIndex = Readonly<{
  dir: string;
  embed: string;
  /** Null: it is a provider's model. */
  source: ModuleSource | null;
  dims: number;
  fields?: readonly string[] | undefined;
}>;

/** By the provider's name, as LangChain's `init_embeddings` knows it: the package, and its class, which takes `model`. */
export const EMBEDDINGS: Readonly<Record<string, readonly [package_: string, class_: string]>> = {
  azure_openai: ["@langchain/openai", "AzureOpenAIEmbeddings"],
  bedrock: ["@langchain/aws", "BedrockEmbeddings"],
  cohere: ["@langchain/cohere", "CohereEmbeddings"],
  google_genai: ["@langchain/google-genai", "GoogleGenerativeAIEmbeddings"],
  google_vertexai: ["@langchain/google-vertexai", "VertexAIEmbeddings"],
  mistralai: ["@langchain/mistralai", "MistralAIEmbeddings"],
  ollama: ["@langchain/ollama", "OllamaEmbeddings"],
  openai: ["@langchain/openai", "OpenAIEmbeddings"],
};

/** As many as the extension `vector` takes. */
export const MOST_DIMS = 16_000;

const index = z.object({
  embed: z
    .string("must be a module, like ./embeddings.ts:name, or a provider's model, like openai:text-embedding-3-small")
    .min(1),
  dims: z.int().min(1).max(MOST_DIMS),
  fields: z.array(z.string().min(1)).min(1).nullish(),
});

export const storeShape = z.object({
  index: index.loose().nullish(),
  ttl: z
    .object({
      default_ttl: z.number().positive().nullish(),
      refresh_on_read: z.boolean().nullish(),
      sweep_interval_minutes: z.number().positive().nullish(),
    })
    .nullish(),
});
type RawStore = z.infer<typeof storeShape> | null | undefined;

export function ttlOf(store: RawStore): StoreTtl | null {
  const ttl = store?.ttl;
  if (!ttl) return null;
  return {
    defaultTtl: ttl.default_ttl ?? undefined,
    refreshOnRead: ttl.refresh_on_read ?? undefined,
    sweepIntervalMinutes: ttl.sweep_interval_minutes ?? undefined,
  };
}

export async function indexOf(dir: string, store: RawStore): Promise<NamedIndex | null> {
  const given = store?.index;
  if (!given) return null;
  const { embed, dims, fields } = given;
  const isModel = embed.includes(":") && Object.hasOwn(EMBEDDINGS, embed.split(":", 1)[0] ?? "");
  return { dir, embed, source: isModel ? null : await moduleSource(dir, embed), dims, fields: fields ?? undefined };
}

/** What other tools read there. */
export function unservedOfStore(store: RawStore): string[] {
  const known = Object.keys(index.shape);
  return Object.keys(store?.index ?? {}).flatMap((key) => (known.includes(key) ? [] : [`store.index.${key}`]));
}
