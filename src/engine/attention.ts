// What is known of a run that failed and waits for a person, without reading any content.
import type { RunRow } from "../runs/runs.js";

/** Null for a run that doesn't. */
export function attentionOf(run: RunRow) {
  if (run.waitsFor !== "person") return null;
  return {
    code: run.errorCode,
    type: run.errorType,
    attempts: run.attempt,
    crashes: run.crashes,
    failures: run.failures,
    provider: run.provider,
    since: run.finishedAt,
    next: [`POST /v1/runs/${run.runId}/retry`, `POST /v1/runs/${run.runId}/close`],
  };
}
