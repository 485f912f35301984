// What a run that goes on for another one takes over from it: the assistant, and everything it was asked with but the input.
import { type AssistantRow, getAssistant } from "../../assistants/queries.js";
import type { Deps } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import type { RunId, TenantId } from "../../core/ids.js";
import { PRIORITY, type Priority } from "../../core/run.js";
import { getRun, type RunRow } from "../../runs/runs.js";
import { loadRunContent } from "../run-content.js";
import { decodeRequest, type RunRequest } from "./request.js";

export type RunSettings = Readonly<{
  run: RunRow;
  assistant: AssistantRow;
  request: RunRequest;
  /** No more urgent than it was; null: by what the run does. */
  priority: Priority | null;
}>;

/** Undefined when the run or its assistant is gone. */
export async function loadRunSettings(
  deps: Deps,
  key: Readonly<{ tenantId: TenantId; runId: RunId }>,
): Promise<RunSettings | undefined> {
  const { tenantId, runId } = key;
  const run = await getRun(deps.db, key);
  const assistant = run && (await getAssistant(deps.db, { tenantId, idOrGraphId: run.assistantId }));
  if (run === undefined || assistant === undefined) return undefined;
  try {
    const content = await loadRunContent(deps, tenantId, runId, { stream: false });
    const priority = run.priority > PRIORITY.resumed ? run.priority : null;
    return { run, assistant, request: decodeRequest(content.request), priority };
  } catch (error) {
    // Deleted, or rolled back, since it was looked at.
    if (isEngineError(error, "not_found")) return undefined;
    throw error;
  }
}

/** The same, but the request has neither input nor command nor checkpoint. */
export async function settingsOfRun(
  deps: Deps,
  key: Readonly<{ tenantId: TenantId; runId: RunId }>,
): Promise<RunSettings | undefined> {
  const settings = await loadRunSettings(deps, key);
  return settings && { ...settings, request: { ...settings.request, input: null, command: null, checkpoint: null } };
}
