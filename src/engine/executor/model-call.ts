// What LangChain's callbacks say of a call: which model, how much goes in, how much may come out, and what it took.
import type { Usage } from "../../core/budget.js";

type Fields = Readonly<Record<string, unknown>>;

/** A picture or a file is about as many tokens as this many characters of text. */
const BLOCK_CHARS = 6_000;

/** As the provider names it; null when nobody says. */
export function modelOf(extra: Fields | undefined, metadata: Fields | undefined): string | null {
  const params = objectOf(extra?.["invocation_params"]);
  const named = [metadata?.["ls_model_name"], params["model"], params["model_name"]];
  return named.find((name) => typeof name === "string") ?? null;
}

/** How much it may answer, if it was told. */
export function maxOutputTokens(extra: Fields | undefined): number | null {
  const params = objectOf(extra?.["invocation_params"]);
  const keys = ["max_tokens", "max_completion_tokens", "maxOutputTokens", "max_output_tokens", "maxTokens"];
  const [found] = keys.flatMap((key) => (typeof params[key] === "number" && params[key] > 0 ? [params[key]] : []));
  return found ?? null;
}

/** Characters of everything that goes in: messages or prompts, tool calls, and the tools it may call. */
export function inputChars(input: unknown, extra: Fields | undefined): number {
  const tools = objectOf(extra?.["invocation_params"])["tools"];
  return charsOf(input) + (tools === undefined ? 0 : JSON.stringify(tools).length);
}

function charsOf(input: unknown): number {
  if (typeof input === "string") return input.length;
  if (Array.isArray(input)) return input.reduce<number>((sum, item) => sum + charsOf(item), 0);
  const { content, tool_calls: calls, type, text } = objectOf(input);
  if (content !== undefined) return charsOf(content) + (Array.isArray(calls) ? JSON.stringify(calls).length : 0);
  if (typeof text === "string") return text.length;
  return typeof type === "string" ? BLOCK_CHARS : 0;
}

/** What the answers say they took; null when they don't. */
export function usageOf(output: unknown): Usage | null {
  const generations = objectOf(output)["generations"];
  const messages = (Array.isArray(generations) ? generations.flat() : []).map((made) =>
    objectOf(objectOf(made)["message"]),
  );
  const said = messages.flatMap(({ usage_metadata: usage }) => (usage === undefined ? [] : [objectOf(usage)]));
  if (said.length === 0) return null;
  const sum = (key: string) => said.reduce((all, usage) => all + (Number(usage[key]) || 0), 0);
  return { inputTokens: sum("input_tokens"), outputTokens: sum("output_tokens") };
}

function objectOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}
