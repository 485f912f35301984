// What a run may be made of, by whom: the handler is told as stock servers tell it, and may change what the run is asked with.
import type { Context } from "hono";
import type { z } from "zod";
import type { AssistantRow } from "../../assistants/queries.js";
import { reaches, type RunAccess, type Within } from "../../core/access.js";
import type { ThreadId } from "../../core/ids.js";
import { contains } from "../../core/json-parts.js";
import { ANY_THREAD } from "../../engine/commands/create-run.js";
import { isSystemAssistant } from "../../engine/commands/create-assistant.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { type RunCreate, runCreate, statelessRunCreate } from "../schemas/runs.js";
import { ask, asLeft, isHandled } from "./ask.js";

type C = Context<ApiEnv>;
type Fields = Readonly<Record<string, unknown>>;

const EVENT = "threads:create_run";

export type AskedRun = Readonly<{ threadId: ThreadId | null; body: RunCreate }>;

/** The request as the handler left it, and what its run may reach. */
export async function askForRun<A extends AskedRun>(
  engine: Engine,
  c: C,
  asked: A,
): Promise<A & Readonly<{ access: RunAccess }>> {
  if (!isHandled(engine, c)) {
    await ask(engine, c, EVENT, {});
    return { ...asked, access: ANY_THREAD };
  }
  const sent = metadataOf(asked.body.metadata);
  const { within, value } = await ask(engine, c, EVENT, told(asked));
  const metadata = metadataOf(value.metadata);
  const schema: z.ZodType<RunCreate> = asked.threadId === null ? statelessRunCreate : runCreate;
  const { assistant_id, multitask_strategy, if_not_exists, after_seconds, kwargs } = value;
  const left = { ...kwargs, assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds };
  return {
    ...asked,
    body: asLeft(schema, left, EVENT),
    access: { within, threadMetadata: labels(metadata, sent, within) },
  };
}

function told({ threadId, body }: AskedRun) {
  const { assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds, ...kwargs } = structuredClone(body);
  return {
    ...{ thread_id: threadId, assistant_id, run_id: null, status: "pending", metadata: metadataOf(metadata) },
    ...{ prevent_insert_if_inflight: multitask_strategy === "reject", multitask_strategy, if_not_exists },
    ...{ after_seconds, kwargs },
  };
}

function metadataOf(given: unknown): Fields {
  return typeof given === "object" && given !== null ? (given as Fields) : {};
}

/** Of a thread that is made for it: what the handler has put there, and what keeps it where its maker reaches it. */
function labels(metadata: Fields, sent: Fields, within: Within): Fields {
  const isTheirs = (key: string): boolean =>
    within !== null && Object.hasOwn(within, key) && contains(metadata[key], within[key]);
  const isNew = (key: string): boolean => JSON.stringify(metadata[key]) !== JSON.stringify(sent[key]);
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => isNew(key) || isTheirs(key)));
}

/** Whether a run may be made of it: a graph's own is for all, any other for who may read it. */
export async function mayUseAssistant(engine: Engine, c: C, assistant: AssistantRow): Promise<boolean> {
  if (!isHandled(engine, c) || isSystemAssistant(assistant)) return true;
  const { within } = await ask(engine, c, "assistants:read", { assistant_id: assistant.assistantId });
  return reaches(within, assistant.metadata);
}
