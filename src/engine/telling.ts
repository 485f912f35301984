// What follow-ups and runs have come to, from their threads' states, and as rows for the outbox.
import { getThread } from "../runs/threads.js";
import type { Sql } from "../core/deps.js";
import type { ThreadId } from "../core/ids.js";
import type { FollowupRow } from "../schedule/followups.js";
import type { TellEngine } from "./commands/tell-followup.js";
import type { Engine } from "./engine.js";
import { contentOf, derivedId } from "./followup-runs.js";
import { answerIn } from "./outgoing.js";
import { openConversation, postIn, sourceOfFollowup } from "./post.js";
import { runEnd } from "./run-end.js";
import { openGraph, readSaver } from "./state.js";

export function tellingOf(engine: Engine): TellEngine {
  const { deps, accounts, outreach, assistant } = engine;
  const placeOf = async (sql: Sql, { tenantId, conversationId }: FollowupRow) =>
    conversationId === null
      ? undefined
      : openConversation({ db: sql, log: deps.log }, accounts, { tenantId, conversationId });
  return {
    deps,
    outreach,
    assistant,
    accounts,
    endOf: (run) => runEnd(engine, run),
    async answerOf({ tenantId, followupId }) {
      const threadId = derivedId<ThreadId>(followupId, "thread");
      const thread = await getThread(deps.db, { tenantId, threadId });
      const graph = thread && (await openGraph(engine, { tenantId, thread }, readSaver(engine, tenantId)));
      const state = await graph?.getState({ configurable: { thread_id: threadId } });
      return answerIn(state?.values);
    },
    async postOf(sql, followup, outgoing) {
      const { followupId, threadId, notAfter } = followup;
      const there = await placeOf(sql, followup);
      if (there === undefined) return [];
      const run = { threadId, runId: null };
      return postIn(deps, there, { source: sourceOfFollowup(followup), sourceId: followupId, outgoing, run, notAfter });
    },
    async sorryOf(sql, followup) {
      const { followupId: sourceId, threadId } = followup;
      const there = await placeOf(sql, followup);
      const words = there?.opened?.account.settings["failure_text"];
      if (there === undefined || typeof words !== "string") return [];
      const text = words.replaceAll("{{about}}", () => contentOf(followup).about);
      return postIn(deps, there, { source: "notice", sourceId, outgoing: { text }, run: { threadId, runId: null } });
    },
  };
}
