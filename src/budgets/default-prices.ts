// List prices in USD per million tokens, for models that no price was set for. They were right once (2025): set your own.
import type { Price } from "../core/budget.js";

const USD: Readonly<Record<string, readonly [inputCost: number, outputCost: number]>> = {
  "claude-opus-4": [15, 75],
  "claude-opus-4-5": [5, 25],
  "claude-sonnet-4": [3, 15],
  "claude-haiku-4": [1, 5],
  "claude-3-5-haiku": [0.8, 4],
  "gpt-5": [1.25, 10],
  "gpt-5-mini": [0.25, 2],
  "gpt-4.1": [2, 8],
  "gpt-4.1-mini": [0.4, 1.6],
  "gpt-4o": [2.5, 10],
  "gpt-4o-mini": [0.15, 0.6],
  "gemini-2.5-pro": [1.25, 10],
  "gemini-2.5-flash": [0.3, 2.5],
};

export const DEFAULT_PRICES: readonly Price[] = Object.entries(USD).map(([model, [inputCost, outputCost]]) => ({
  model,
  inputCost,
  outputCost,
}));
