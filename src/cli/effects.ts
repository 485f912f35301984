// `perdure effects`: what tools did outside, may have done, or are doing.
import type { Deps } from "../core/deps.js";
import { DEFAULT_TENANT, type RunId, type ThreadId } from "../core/ids.js";
import type { EffectStatus } from "../effects/effect.js";
import { listEffects } from "../effects/queries.js";
import { effectRecord } from "../engine/effect-record.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Filter = Readonly<{ threadId: ThreadId | null; runId: RunId | null; status: EffectStatus | null; limit: number }>;

export async function effectsLs(
  { db }: Deps,
  filter: Filter,
  print: Output & Readonly<{ json: boolean }>,
): Promise<void> {
  const effects = (await listEffects(db, { tenantId: DEFAULT_TENANT, offset: 0, ...filter })).map(effectRecord);
  if (print.json) return print.line(json(effects));
  const rows = effects.map(
    ({ updated_at, tool, status, kind, policy, calls, resolution, run_id, key, error_code }) => ({
      ...{ updated: updated_at, tool, status, kind, policy, calls },
      settled: resolution === null ? null : `${resolution.how} (${resolution.by})`,
      ...{ error: error_code, run: run_id, key },
    }),
  );
  print.line(table(rows, "There are no such effects."));
}
