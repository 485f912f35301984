// What this tab knows of the conversation: items by number, each once in whatever way and however often it comes.
import type { Asked, Item, News, Status } from "./wire.js";

/** What the person wrote and the server hasn't said yet that it has it. */
export type Unsent = Readonly<{ id: string; text: string; at: string; failed: boolean }>;

export type Shown = Readonly<{
  items: readonly Item[];
  unsent: readonly Unsent[];
  status: Status;
  typing: boolean;
  /** There is more before the first item. */
  hasEarlier: boolean;
}>;

const NOTHING: Status = { last_seq: 0, received_seq: 0, read_seq: 0, unread: 0, approvals: [] };

export function createConversation(onChange: () => void) {
  const known = new Set<string>();
  let items: readonly Item[] = [];
  let unsent: readonly Unsent[] = [];
  let status = NOTHING;
  let typing = false;

  /** Returns those that are new here. */
  function take(news: News): readonly Item[] {
    const fresh = (news.items ?? []).filter(({ id }) => !known.has(id));
    for (const { id } of fresh) known.add(id);
    if (fresh.length > 0) {
      items = [...items, ...fresh].sort((a, b) => a.seq - b.seq);
      unsent = unsent.filter(({ id }) => !known.has(id));
    }
    if (news.status !== undefined) status = news.status;
    const asked = new Map([...(news.status?.approvals ?? [])].map((approval) => [approval.approval_id, approval]));
    if (asked.size > 0) items = items.map((item) => withAnswer(item, asked));
    typing = news.typing ?? typing;
    onChange();
    return fresh;
  }

  return {
    take,
    shown: (): Shown => ({ items, unsent, status, typing, hasEarlier: (items[0]?.seq ?? 1) > 1 }),
    lastSeq: () => items.at(-1)?.seq ?? 0,
    firstSeq: () => items[0]?.seq ?? Number.MAX_SAFE_INTEGER,
    write(id: string, text: string): void {
      unsent = [...unsent, { id, text, at: new Date().toISOString(), failed: false }];
      onChange();
    },
    fail(id: string, failed: boolean): void {
      unsent = unsent.map((message) => (message.id === id ? { ...message, failed } : message));
      onChange();
    },
    drop(id: string): void {
      unsent = unsent.filter((message) => message.id !== id);
      onChange();
    },
  };
}

export type Conversation = ReturnType<typeof createConversation>;

function withAnswer(item: Item, asked: ReadonlyMap<string, Asked>): Item {
  const answer = item.approval === null ? undefined : asked.get(item.approval.approval_id);
  return answer === undefined || answer.status === item.approval?.status ? item : { ...item, approval: answer };
}
