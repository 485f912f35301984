// What is told of a run that is over, to whoever asked for it: https://docs.langchain.com/langsmith/use-webhooks
import { isBodyLost, isEngineError } from "../core/errors.js";
import type { RunOfThread } from "../runs/runs.js";
import type { Engine } from "./engine.js";
import type { Json } from "./render.js";
import { runResult } from "./run-result.js";
import { runShape } from "./run-shape.js";

/** What it came to isn't sent if it is longer: whoever is told can ask for it. */
const MAX_VALUES_CHARACTERS = 1024 * 1024;

export async function runEnd(engine: Engine, run: RunOfThread): Promise<Readonly<Record<string, unknown>>> {
  return {
    ...(await runShape(engine, run)),
    run_started_at: run.startedAt,
    run_ended_at: run.finishedAt,
    ...(await outcomeOf(engine, run)),
  };
}

type Told = Readonly<{ values: Json; values_left_out?: true; error?: Json }>;

async function outcomeOf(engine: Engine, run: RunOfThread): Promise<Told> {
  try {
    const result = await runResult(engine, run);
    const failed = (result as Readonly<{ __error__?: Json }> | null)?.__error__;
    if (failed !== undefined) return { values: null, error: failed };
    const isLong = JSON.stringify(result).length > MAX_VALUES_CHARACTERS;
    return isLong ? { values: null, values_left_out: true } : { values: result };
  } catch (error) {
    // Gone before it could be told: that it is over is told all the same.
    if (!isBodyLost(error) && !isEngineError(error, "expired")) throw error;
    return { values: null, error: { error: error.code, message: error.message } };
  }
}
