// What messages are made of: A2A's parts on one side, the content of LangChain's messages on the other.
import { isObject } from "../../core/json-parts.js";

export type Part =
  | Readonly<{ kind: "text"; text: string }>
  | Readonly<{ kind: "data"; data: unknown }>
  | Readonly<{ kind: "file"; url?: string; bytes?: string; name?: string; mediaType?: string }>;

type Block = Readonly<Record<string, unknown>>;

/** As a graph's messages have it: text alone is text. */
export function contentOf(parts: readonly Part[]): string | Block[] {
  const blocks = parts.map(blockOf);
  const [only, ...others] = blocks;
  return others.length === 0 && only?.["type"] === "text" ? String(only["text"]) : blocks;
}

function blockOf(part: Part): Block {
  switch (part.kind) {
    case "text":
      return { type: "text", text: part.text };
    case "data":
      return { type: "text", text: JSON.stringify(part.data) };
    case "file": {
      const { url, bytes, name, mediaType } = part;
      const [kind = ""] = mediaType?.split("/") ?? [];
      return {
        type: MEDIA.includes(kind) ? kind : "file",
        ...(mediaType !== undefined && { mimeType: mediaType }),
        ...(url === undefined ? { data: bytes } : { url }),
        ...(name !== undefined && { metadata: { filename: name } }),
      };
    }
  }
}

const MEDIA = ["image", "audio", "video"];

/** What can be shown of a message's content. */
export function partsOf(content: unknown): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (!Array.isArray(content)) return [];
  return content.flatMap((block: unknown) => (isObject(block) ? shown(block) : []));
}

function shown(block: Block): Part[] {
  const { type, text, url, data, mimeType, metadata } = block;
  if (type === "text") return typeof text === "string" && text !== "" ? [{ kind: "text", text }] : [];
  if (type !== "file" && !MEDIA.includes(String(type))) return [];
  const name = isObject(metadata) ? metadata["filename"] : undefined;
  const about = {
    ...(typeof mimeType === "string" && { mediaType: mimeType }),
    ...(typeof name === "string" && { name }),
  };
  if (typeof url === "string") return [{ kind: "file", url, ...about }];
  return typeof data === "string" ? [{ kind: "file", bytes: data, ...about }] : [];
}
