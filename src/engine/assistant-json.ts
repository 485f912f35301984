// LANGGRAPH_CONFIG: what graphs' own assistants are configured with, as the LangGraph CLI hands it to a server.
import { z } from "zod";
import { EngineError } from "../core/errors.js";
import { nearest } from "../core/nearest.js";

/** By graph. What isn't named has none of it. */
export type AssistantSettings = Readonly<
  Record<string, Readonly<{ config: Readonly<Record<string, unknown>>; context: Readonly<Record<string, unknown>> }>>
>;

const object = z.record(z.string(), z.unknown());
const SCHEMA = z.record(z.string(), z.looseObject({ configurable: object.optional(), context: object.nullish() }));
const LIKE = 'must be JSON like {"agent": {"configurable": {"model": "…"}, "context": {}}}';

/** Throws `config_invalid` for what is not of its form, or names a graph that isn't there. */
export function assistantSettings(text: string | null, graphIds: readonly string[]): AssistantSettings {
  if (text === null) return {};
  const parsed = SCHEMA.safeParse(parse(text));
  if (!parsed.success) throw refused(LIKE);
  const entries = Object.entries(parsed.data);
  for (const [graphId] of entries) if (!graphIds.includes(graphId)) throw refused(noSuchGraph(graphId, graphIds));
  return Object.fromEntries(
    entries.map(([graphId, { context, ...config }]) => [graphId, { config, context: context ?? {} }]),
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refused(LIKE);
  }
}

function noSuchGraph(graphId: string, graphIds: readonly string[]): string {
  const guess = nearest(graphId, graphIds);
  return `names the graph ${JSON.stringify(graphId)}, which isn't there${guess === null ? "" : `; did you mean "${guess}"?`}`;
}

const refused = (what: string): EngineError => new EngineError("config_invalid", `LANGGRAPH_CONFIG ${what}`);
