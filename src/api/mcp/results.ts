// What a tool answers, in the two forms that clients read: JSON as text, and as data.
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { isObject } from "../../core/json-parts.js";
import { renderJson } from "../../engine/render.js";

type Meta = Readonly<Record<string, unknown>>;

/** `meta`: for programs, beside what models read. */
export function answered(value: unknown, meta?: Meta): CallToolResult {
  const shown = renderJson(value) ?? null;
  return {
    content: [{ type: "text", text: JSON.stringify(shown) }],
    ...(isObject(shown) && { structuredContent: shown }),
    ...(meta !== undefined && { _meta: { ...meta } }),
  };
}

export function failed(message: string, meta?: Meta): CallToolResult {
  return {
    content: [{ type: "text", text: message }],
    isError: true,
    ...(meta !== undefined && { _meta: { ...meta } }),
  };
}
