// `perdure limits`: how many runs of a tenant or of a graph are executed at a time, and how urgent a tenant's may be.
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { TenantId } from "../core/ids.js";
import type { PriorityName } from "../core/run.js";
import { limitGraph, limitPriority, limitTenant, type LimitMax, listLimits } from "../runs/limits.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;

export type NewLimit = Readonly<{ of: "tenant" | "graph"; id: string; max: LimitMax }>;

export async function limitsLs(deps: Deps, print: Print): Promise<void> {
  const limits = await listLimits(deps.db);
  if (print.json) return print.line(json(limits));
  const rows = limits.map(({ of, id, max, running, best }) => ({
    of,
    id,
    max,
    running,
    "most urgent": best,
  }));
  print.line(table(rows, "There are no tenants."));
}

export async function limitsPriority(deps: Deps, id: string, best: PriorityName, print: Print): Promise<void> {
  if (!(await limitPriority(deps.db, id as TenantId, best))) throw noTenant(id);
  if (print.json) return print.line(json({ of: "tenant", id, best }));
  print.line(`Runs of tenant ${id} are ${best} at best from now on.`);
}

function noTenant(id: string): EngineError {
  return new EngineError("not_found", `There is no tenant ${JSON.stringify(id)}; \`perdure limits ls\` lists them`);
}

export async function limitsSet(deps: Deps, { of, id, max }: NewLimit, print: Print): Promise<void> {
  if (of === "graph") await limitGraph(deps.db, id, max);
  else if (!(await limitTenant(deps.db, id as TenantId, max))) throw noTenant(id);
  if (print.json) return print.line(json({ of, id, max }));
  const many = max === "none" ? "As many runs as there are slots" : `At most ${max} runs`;
  const where = `of ${of} ${id} at a time`;
  print.line(max === "default" ? `As many runs ${where} as langgraph.json says.` : `${many} ${where}.`);
}
