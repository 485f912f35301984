// A run's seed, for models and graphs that take one: what was asked for, or minted from the run's id, so that each of its attempts
// has the same.
import { createHash } from "node:crypto";

const MAX_SEED = 2 ** 31;

/** `configurable.seed` of a run: a number or text that was given, else a whole number from 0 to 2³¹ − 1. */
export function seedOf(runId: string, configurable: Readonly<Record<string, unknown>> | undefined): number | string {
  const given = configurable?.["seed"];
  if (typeof given === "number" || typeof given === "string") return given;
  return createHash("sha256").update(runId).digest().readUInt32BE() % MAX_SEED;
}
