// The runs of a follow-up: which they are follows from its id, so that whoever fires it twice makes one.
import { v5 as uuidv5 } from "uuid";
import type { AuthUser } from "../core/access.js";
import type { FollowupId, RunId, ThreadId } from "../core/ids.js";
import type { FollowupRow } from "../schedule/followups.js";
import { type Priority, PRIORITY } from "../core/run.js";
import type { RunRequest } from "./commands/request.js";

export type FollowupContent = Readonly<{
  about: string;
  instruction: string;
  /** Who asked for it, where that is known. */
  user?: AuthUser;
}>;

export function contentOf({ content }: Pick<FollowupRow, "content">): FollowupContent {
  return JSON.parse(content.toString("utf8")) as FollowupContent;
}

/** The id of a follow-up's run or thread: always the same. */
export function derivedId<T extends RunId | ThreadId>(followupId: FollowupId, what: "work" | "tell" | "thread"): T {
  return uuidv5(what, followupId) as T;
}

/** What its graph put there, and where it came from: of the conversation, not of the thread that works for it. */
const ITS_OWN: ReadonlySet<string> = new Set(["graph_id", "assistant_id", "source_thread_id"]);

/** Of the thread that works for the conversation: whoever may see the one may see the other. */
export function workThreadMetadata(
  { followupId, threadId }: Pick<FollowupRow, "followupId" | "threadId">,
  root: Readonly<{ metadata: Readonly<Record<string, unknown>> }>,
): Readonly<Record<string, unknown>> {
  const labels = Object.entries(root.metadata).filter(([key]) => !ITS_OWN.has(key));
  return { ...Object.fromEntries(labels), followup_id: followupId, root_thread_id: threadId };
}

/** What a person waits for comes before what a schedule wants to say. */
export function priorityOfFollowup({ scheduleId }: Pick<FollowupRow, "scheduleId">): Priority {
  return scheduleId === null ? PRIORITY.scheduled : PRIORITY.outreach;
}

/** Asks for nothing. */
export const EMPTY_REQUEST: RunRequest = {
  ...{ input: null, command: null, config: {}, context: null, checkpoint: null },
  ...{ interrupt_before: null, interrupt_after: null, stream_mode: ["values"], stream_subgraphs: false, watched: true },
};
