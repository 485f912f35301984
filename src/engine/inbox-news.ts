// Wakes who reads an inbox: by notifications, which all readers of a process share, and by one look at all of their conversations every
// few seconds, since notifications get lost.
import type { Deps } from "../core/deps.js";
import { isTransientDbError } from "../core/retry.js";
import type { ConversationId, TenantId } from "../core/ids.js";
import type { ConversationKey } from "../delivery/conversations.js";
import { inboxHeads } from "../delivery/inbox.js";
import { activeThreads } from "../runs/runs.js";

export type InboxNews = Readonly<{
  /** Calls back when there may be something new there, until it is told to stop. */
  watch(key: ConversationKey, onNews: () => void): () => void;
}>;

const LOOK_MS = 5_000;

type Watched = { readonly key: ConversationKey; readonly readers: Set<() => void>; seen: string | null };

export function createInboxNews(
  deps: Pick<Deps, "clock" | "db" | "log" | "notifier">,
  { lookMs = LOOK_MS }: Readonly<{ lookMs?: number }> = {},
): InboxNews {
  const watched = new Map<ConversationId, Watched>();
  let stopListening: (() => void) | undefined;
  let looking = new AbortController();

  const wake = ({ readers }: Watched): void => readers.forEach((onNews) => onNews());
  const heard = (id: string | undefined): void => {
    if (id === undefined) return watched.forEach(wake);
    const found = watched.get(id as ConversationId);
    if (found !== undefined) wake(found);
  };

  const begin = (): void => {
    looking = new AbortController();
    stopListening = deps.notifier.listen("inbox", heard);
    void lookAround(looking.signal);
  };
  const end = (): void => {
    stopListening?.();
    looking.abort();
  };

  async function lookAround(over: AbortSignal): Promise<void> {
    for (;;) {
      await deps.clock.sleep(lookMs, over);
      if (over.aborted) return;
      try {
        for (const tenantId of new Set([...watched.values()].map(({ key }) => key.tenantId))) await look(tenantId);
      } catch (error) {
        if (!isTransientDbError(error)) deps.log.error({ error: (error as Error).name }, "inboxes can't be looked at");
      }
    }
  }

  async function look(tenantId: TenantId): Promise<void> {
    const own = [...watched.values()].filter(({ key }) => key.tenantId === tenantId);
    const heads = await inboxHeads(deps.db, { tenantId, conversationIds: own.map(({ key }) => key.conversationId) });
    const active = await activeThreads(deps.db, { tenantId, threadIds: heads.map(({ threadId }) => threadId) });
    for (const { conversationId, threadId, lastSeq, readSeq } of heads) {
      const found = watched.get(conversationId);
      const now = `${lastSeq} ${readSeq} ${active.has(threadId)}`;
      if (found === undefined || found.seen === now) continue;
      found.seen = now;
      wake(found);
    }
  }

  return {
    watch(key, onNews) {
      if (watched.size === 0) begin();
      const found = watched.get(key.conversationId) ?? { key, readers: new Set(), seen: null };
      watched.set(key.conversationId, found);
      found.readers.add(onNews);
      return () => {
        if (!found.readers.delete(onNews)) return;
        if (found.readers.size === 0) watched.delete(key.conversationId);
        if (watched.size === 0) end();
      };
    },
  };
}
