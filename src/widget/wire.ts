// What the server says, as it comes over the wire.

export type Asked = Readonly<{
  approval_id: string;
  status: "pending" | "decided" | "withdrawn";
  decision: string | null;
}>;

export type Item = Readonly<{
  id: string;
  seq: number;
  author: "agent" | "person";
  /** Markdown where an agent wrote it, plain text where the person did. */
  text: string;
  at: string;
  approval: Asked | null;
}>;

export type Status = Readonly<{
  last_seq: number;
  received_seq: number;
  read_seq: number;
  unread: number;
  approvals: readonly Asked[];
}>;

export type Page = Status & Readonly<{ items: readonly Item[]; typing: boolean }>;

/** What a tab learns, from the server or from the tab that listens to it. */
export type News = Readonly<{ items?: readonly Item[]; status?: Status; typing?: boolean }>;
