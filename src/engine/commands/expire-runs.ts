// Forgets what the finished runs of a thread were asked, how they failed, what they streamed and their logs, when it is old
// enough. The runs themselves stay, and say since when. What a question or a sleeping branch still goes on from stays whole.
import { runsThatAsk } from "../../approvals/approvals.js";
import type { Deps } from "../../core/deps.js";
import { expireResults } from "../../effects/queries.js";
import { expireRunContents, expirableRuns } from "../../runs/expire.js";
import { lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { dueTimerRefs, setTimer } from "../../schedule/timers.js";

/** Returns how many runs it was. */
export async function expireRuns(
  deps: Deps,
  thread: ThreadKey,
  options: Readonly<{ olderThanMs: number; dryRun: boolean }>,
): Promise<number> {
  const { tenantId, threadId } = thread;
  return deps.db.tx(async (sql) => {
    if ((await lockThread(sql, thread)) === undefined) return 0;
    const old = await expirableRuns(sql, thread, options.olderThanMs);
    const asking = new Set<string>(await runsThatAsk(sql, thread));
    for (const runId of await dueTimerRefs(sql, { tenantId, kind: "run.wake", refIds: old })) asking.add(runId);
    const runIds = old.filter((runId) => !asking.has(runId));
    if (options.dryRun || runIds.length === 0) return runIds.length;
    await expireRunContents(sql, { tenantId, runIds });
    await expireResults(sql, { tenantId, runIds });
    await setTimer(sql, {
      tenantId,
      timerId: deps.ids.next(),
      kind: "repack",
      refId: threadId,
      when: { afterMs: 0 },
    });
    return runIds.length;
  });
}
