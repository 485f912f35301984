// Stored events as they were sent: those that hold only what is new get the rest from the events before them.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, TenantId } from "../../core/ids.js";
import { readStreamPage, type StreamLine } from "../../runs/stream-chunks.js";
import { createDeltaDecoder } from "../../runs/stream-delta.js";
import { loadRunContent } from "../run-content.js";

type RunKey = Readonly<{ tenantId: TenantId; runId: RunId }>;

export type Restorer = Readonly<{ restore(line: StreamLine): Promise<StreamLine> }>;

const PAGE_ROWS = 64;

/** Restores events given in order, from wherever one begins: what it builds on is read when it wasn't given. */
export function createRestorer(deps: Deps, run: RunKey): Restorer {
  const decoder = createDeltaDecoder();
  return {
    async restore(line) {
      const whole = decoder.decode(line);
      if ("event" in whole) return whole;
      for (const earlier of [storedLines, movedLinesOf]) {
        for await (const before of earlier(deps, run, whole.needsFrom)) {
          if (before.id >= line.id) break;
          decoder.decode(before);
        }
        const restored = decoder.decode(line);
        if ("event" in restored) return restored;
      }
      throw new EngineError("internal", `Event ${line.id} of run ${run.runId} builds on events that are not stored`);
    },
  };
}

async function* storedLines(deps: Deps, run: RunKey, fromId: number): AsyncGenerator<StreamLine> {
  for (let afterId = fromId - 1; ; ) {
    const page = await readStreamPage(deps.db, { ...run, afterId, maxRows: PAGE_ROWS });
    yield* page?.lines ?? [];
    if (page === undefined || !page.full) return;
    afterId = page.lines.at(-1)?.id ?? Number.POSITIVE_INFINITY;
  }
}

async function* movedLinesOf(deps: Deps, run: RunKey, fromId: number): AsyncGenerator<StreamLine> {
  for (const line of await movedLines(deps, run)) if (line.id >= fromId) yield line;
}

/** All events of a run whose stream left Postgres, with those that came after, as they are stored. */
export async function movedLines(deps: Deps, { tenantId, runId }: RunKey): Promise<StreamLine[]> {
  const { stream } = await loadRunContent(deps, tenantId, runId);
  return stream.map(({ id, event, data }) => ({ id, event, json: JSON.stringify(data) }));
}
