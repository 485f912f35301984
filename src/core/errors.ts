// The closed list of things that can go wrong. A code exists when some caller decides differently because of it.

/** What happened, as a decision: callers match on this, never on the message. */
export type ErrorCode =
  | "bad_request" // the caller sent something that can't be meant
  | "not_found" // no such thing for this tenant
  | "conflict" // it exists already, or is in a state that forbids this
  | "thread_busy" // another run holds the thread
  | "not_pending" // an answer to a question that isn't open
  | "more_votes_needed" // the answer counts, but not alone
  | "forbidden" // not for this caller
  | "graph_changed" // the graph has no place any more for what is to go on
  | "assistant_changed" // it has another version than it was read with: read it again
  | "graph_invalid" // the graph file or export can't be used
  | "config_invalid" // configuration or environment can't be used
  | "lease_lost" // another attempt owns the run now: stop, write nothing
  | "body_missing" // a body that a checkpoint names isn't in the store
  | "body_corrupt" // a body's bytes don't match their hash
  | "expired" // it was kept for a time, which is over
  | "value_unsupported" // a state value the codec can't keep exactly
  | "effect_conflict" // a key that stands for one intent was used for another
  | "effect_unknown" // nobody knows whether it was done, and it may not be done again
  | "effect_refused" // this call may not be made here
  | "schema_newer" // the database was migrated by a newer, breaking version
  | "embedding_failed" // what makes the store's vectors couldn't
  | "unavailable" // Postgres or the object store can't be reached now
  | "internal"; // a broken promise of our own

/** An error with a code. The message says what happened, to which id, and what to do next; never a secret or a message body. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly options: Readonly<{ cause?: unknown; details?: Readonly<Record<string, unknown>> }> = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
  }
  /** Facts for programs (ids, what is pending …); safe to show to the caller. */
  get details(): Readonly<Record<string, unknown>> {
    return this.options.details ?? {};
  }
}

/** True when `error` is an EngineError, with that code if one is given; also of another copy of this module, as a project may have. */
export function isEngineError(error: unknown, code?: ErrorCode): error is EngineError {
  const found = error instanceof EngineError || isOfAnotherCopy(error);
  return found && (code === undefined || error.code === code);
}

/** Waits for what may find that its thing was deleted meanwhile, which is no failure then. */
export async function unlessGone(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!isEngineError(error, "not_found")) throw error;
  });
}

function isOfAnotherCopy(error: unknown): error is EngineError {
  if (!(error instanceof Error) || error.name !== "EngineError") return false;
  const { code, details } = error as Partial<EngineError>;
  return typeof code === "string" && typeof details === "object";
}

/** True when what was asked for was stored once and can't be read any more: asking again won't help. */
export function isBodyLost(error: unknown): error is EngineError {
  return isEngineError(error, "body_missing") || isEngineError(error, "body_corrupt");
}
