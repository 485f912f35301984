// Which model the examples talk to: Anthropic's when ANTHROPIC_API_KEY is set, else the script, which needs no key.
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { type Script, ScriptedModel } from "./scripted-model.js";

/** The provider's package is imported only when there is a key for it. */
export async function chooseModel(name: string, script: Script): Promise<BaseChatModel> {
  if (!process.env["ANTHROPIC_API_KEY"]) return new ScriptedModel(name, script);
  const { ChatAnthropic } = await import("@langchain/anthropic");
  return new ChatAnthropic({ model: process.env["ANTHROPIC_MODEL"] ?? "claude-sonnet-4-5", maxTokens: 1024 });
}
