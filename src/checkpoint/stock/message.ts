// A message from what LangChain's own serialization keeps of it, made as LangChain's `load` makes it.
import type { BaseMessage } from "@langchain/core/messages";
import { MESSAGE_CLASSES } from "../codec/langchain-forms.js";

const CLASS_BY_NAME = new Map(MESSAGE_CLASSES.map((Kind) => [Kind.name, Kind]));

/** Undefined when the id names none of the message classes, or there are no arguments. Other classes are never made. */
export function messageOfKwargs(id: readonly unknown[], kwargs: unknown): BaseMessage | undefined {
  const [library, module] = id;
  const name = id.at(-1);
  if (library !== "langchain_core" || module !== "messages" || typeof name !== "string" || id.length < 3)
    return undefined;
  const Kind = CLASS_BY_NAME.get(name);
  if (Kind === undefined || typeof kwargs !== "object" || kwargs === null || Array.isArray(kwargs)) return undefined;
  const aliases = aliasesOf(Kind.prototype);
  const fields = Object.entries(kwargs).map(([key, value]) => [aliases.get(key) ?? camelCase(key), value] as const);
  try {
    // Own properties, whatever they are called.
    return new Kind(Object.fromEntries(fields));
  } catch {
    // Its constructor refuses what no message has.
    return undefined;
  }
}

/** Names that are not written in camel case, from the class and those it is made from. */
function aliasesOf(prototype: object): ReadonlyMap<string, string> {
  const aliases = new Map<string, string>();
  for (let at: object | null = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const own = Reflect.get(at, "lc_aliases") as Readonly<Record<string, string>> | undefined;
    for (const [field, written] of Object.entries(own ?? {})) aliases.set(written, field);
  }
  return aliases;
}

function camelCase(key: string): string {
  const trimmed = key.trim();
  if (!/[-_\s]/.test(trimmed)) return trimmed;
  return trimmed
    .replace(/[-_\s]+/g, "_")
    .toLowerCase()
    .replace(/_+([a-z0-9])/g, (_, char: string) => char.toUpperCase());
}
