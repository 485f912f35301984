// Threads by what their states hold. Postgres doesn't have that: states are read, thread by thread, so a search has to be narrowed by
// what it does have.
import { contains } from "../core/json-parts.js";
import { EngineError } from "../core/errors.js";
import { countThreads, searchThreads, type ThreadFilter, type ThreadPage, type ThreadRow } from "../runs/threads.js";
import type { Engine } from "./engine.js";
import { renderJson } from "./render.js";
import { readThreadHeads } from "./thread-head.js";

/** So many threads are looked at for one search. */
const MOST = 10_000;
const AT_ONCE = 200;

export type WithValues = Readonly<{ values: Readonly<Record<string, unknown>> }>;

/** A page of the threads whose values contain `values`, as jsonb `@>` means it, and how many there are. Throws `bad_request` when too many have to be looked at. */
export async function searchByValues(
  engine: Engine,
  page: ThreadPage & WithValues,
): Promise<Readonly<{ threads: ThreadRow[]; total: number }>> {
  const found: ThreadRow[] = [];
  let total = 0;
  for await (const thread of matching(engine, page)) {
    total += 1;
    if (total > page.offset && found.length < page.limit) found.push(thread);
  }
  return { threads: found, total };
}

export async function countByValues(engine: Engine, filter: ThreadFilter & WithValues): Promise<number> {
  let total = 0;
  for await (const _ of matching(engine, { ...filter, sortBy: "thread_id", sortOrder: "asc" })) total += 1;
  return total;
}

type Order = Pick<ThreadPage, "sortBy" | "sortOrder">;

async function* matching(engine: Engine, { values, ...filter }: ThreadFilter & WithValues & Order) {
  const { db } = engine.deps;
  if ((await countThreads(db, filter)) > MOST) {
    throw new EngineError(
      "bad_request",
      `values: looks into at most ${MOST} threads; narrow them by metadata, status or ids as well`,
    );
  }
  for (let offset = 0; ; offset += AT_ONCE) {
    const threads = await searchThreads(db, { ...filter, limit: AT_ONCE, offset });
    const heads = await readThreadHeads(engine, filter.tenantId, threads);
    for (const thread of threads) {
      if (contains(renderJson(heads.get(thread.threadId)?.values), values)) yield thread;
    }
    if (threads.length < AT_ONCE) return;
  }
}
