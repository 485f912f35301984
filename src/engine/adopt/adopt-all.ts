// Adopts the threads of a source one after the other, a few at a time: what is held in memory doesn't grow with their number.
import { countStockThreads, stockThreadIds } from "../../checkpoint/stock/tables.js";
import type { Engine } from "../engine.js";
import { adoptThread, type Adopted, type AdoptOptions, tryAdoption } from "./adopt.js";
import type { Source } from "./source.js";

export type AdoptAllOptions = AdoptOptions &
  Readonly<{
    /** Of the source; null: all of them. */
    threadIds: readonly string[] | null;
    dryRun: boolean;
    /** Told how many there are, before the first. */
    onTotal: (threads: number) => void;
    /** Told about each as it is done. */
    onThread: (adopted: Adopted) => void;
    /** Aborted: no further thread is begun. */
    signal: AbortSignal;
  }>;

const AT_ONCE = 4;
const PAGE = 500;

/** Resolves when all are done, or those begun when the signal came. Throws like `adoptThread`; what is done stays done. */
export async function adoptAll(engine: Engine, source: Source, options: AdoptAllOptions): Promise<void> {
  const { threadIds, signal } = options;
  await source.shape();
  options.onTotal(threadIds?.length ?? (await source.look(countStockThreads)));
  const adopt = options.dryRun ? tryAdoption : adoptThread;
  const ids = threadIds === null ? idsOf(source) : threadIds.values();
  let failure: { error: unknown } | undefined;
  const work = async (): Promise<void> => {
    while (!signal.aborted && failure === undefined) {
      const next = await ids.next();
      if (next.done === true) return;
      options.onThread(await adopt(engine, source, next.value, options));
    }
  };
  const safely = () => work().catch((error: unknown) => void (failure ??= { error }));
  await Promise.all(Array.from({ length: AT_ONCE }, safely));
  if (failure !== undefined) throw failure.error;
}

async function* idsOf(source: Source): AsyncGenerator<string, undefined> {
  for (let after: string | null = null; ; ) {
    const from: string | null = after;
    const page: readonly string[] = await source.look((sql) => stockThreadIds(sql, from, PAGE));
    yield* page;
    after = page.at(-1) ?? null;
    if (page.length < PAGE) return undefined;
  }
}
