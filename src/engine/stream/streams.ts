// What the readers of a process share, so that many of one run cost little more than one.
import type { Sql } from "../../core/deps.js";
import { joined } from "../../core/joined.js";
import { type PageKey, readStreamPage, type StreamPage } from "../../runs/stream-chunks.js";
import { createLive, type Live } from "./live.js";

export type Streams = Readonly<{
  live: Live;
  page(key: PageKey): Promise<StreamPage | undefined>;
}>;

export function createStreams(db: Sql): Streams {
  const keyOf = ({ tenantId, runId, afterId, maxRows }: PageKey): string =>
    [tenantId, runId, afterId, maxRows].join(" ");
  return { live: createLive(), page: joined(keyOf, (key) => readStreamPage(db, key)) };
}
