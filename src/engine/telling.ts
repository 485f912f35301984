// What follow-ups and runs have come to, from their threads' states, and as rows for the outbox.
import { getThread } from "../runs/threads.js";
import type { ThreadId } from "../core/ids.js";
import type { TellEngine } from "./commands/tell-followup.js";
import type { Engine } from "./engine.js";
import { derivedId } from "./followup-runs.js";
import { answerIn } from "./outgoing.js";
import { openConversation, postIn, sourceOfFollowup } from "./post.js";
import { runEnd } from "./run-end.js";
import { openGraph, readSaver } from "./state.js";

export function tellingOf(engine: Engine): TellEngine {
  const { deps, accounts, outreach, assistant } = engine;
  return {
    deps,
    outreach,
    assistant,
    accounts,
    endOf: (run) => runEnd(engine, run),
    async answerOf({ tenantId, followupId }) {
      const threadId = derivedId<ThreadId>(followupId, "thread");
      const thread = await getThread(deps.db, { tenantId, threadId });
      const graph = thread && (await openGraph(engine, { thread }, readSaver(engine, tenantId)));
      const state = await graph?.getState({ configurable: { thread_id: threadId } });
      return answerIn(state?.values);
    },
    async postOf(sql, followup, outgoing) {
      const { tenantId, followupId, threadId, conversationId, notAfter } = followup;
      if (conversationId === null) return [];
      const there = await openConversation({ db: sql, log: deps.log }, accounts, { tenantId, conversationId });
      if (there === undefined) return [];
      const run = { threadId, runId: null };
      return postIn(deps, there, { source: sourceOfFollowup(followup), sourceId: followupId, outgoing, run, notAfter });
    },
  };
}
