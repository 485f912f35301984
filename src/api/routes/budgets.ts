// What runs, threads and days may spend, and what models cost.
import { Hono } from "hono";
import { z } from "zod";
import { type BudgetRow, listBudgets, putPrice } from "../../budgets/budgets.js";
import { BUDGET_SCOPES, type BudgetScope, NO_LIMITS } from "../../core/budget.js";
import { EngineError } from "../../core/errors.js";
import { isUuid, type TenantId } from "../../core/ids.js";
import { limitsShape, pricesOf, setBudget } from "../../engine/budgets.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { integer, one, readBody, readQuery } from "../request.js";
import { absent, text } from "../schemas/parts.js";

const whole = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const money = z.number().min(0).max(1e12);
/** What is left out has no limit. */
export const budgetBody = z.object({
  cost: absent(money),
  tokens: absent(whole),
  steps: absent(whole.max(2_147_483_647)),
  active_ms: absent(whole),
});
export const budgetList = z.object({
  scope: one.pipe(z.enum(BUDGET_SCOPES).optional()),
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
});
export const priceBody = z.object({ input_cost: money, output_cost: money });

export function budgetRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { db } = engine.deps;

  routes.get("/v1/budgets", async (c) => {
    const { scope, limit } = readQuery(c, budgetList);
    const rows = await listBudgets(db, { tenantId: c.get("tenantId"), limit, ...(scope && { scope }) });
    return json(c, rows.map(toWire));
  });

  routes.get("/v1/budgets/:scope/:ref_id", async (c) => {
    const key = keyOf(c.get("tenantId"), c.req.param("scope"), c.req.param("ref_id"));
    const [row] = await listBudgets(db, { ...key, limit: 1 });
    if (row === undefined) throw new EngineError("not_found", `No budget was set for ${key.scope} ${key.refId}`);
    return json(c, toWire(row));
  });

  /** Sets all of it. Runs under way are held to it from their next call on; a thread, also one that is made later. */
  routes.put("/v1/budgets/:scope/:ref_id", async (c) => {
    const key = keyOf(c.get("tenantId"), c.req.param("scope"), c.req.param("ref_id"));
    const { cost = null, tokens = null, steps = null, active_ms: activeMs = null } = await readBody(c, budgetBody);
    if (key.scope !== "run" && (steps ?? activeMs) !== null) {
      throw new EngineError("bad_request", `steps, active_ms: only a run has them, not a ${key.scope}`);
    }
    const row = await setBudget(db, { ...key, ...NO_LIMITS, cost, tokens, steps, activeMs });
    return json(c, { ...toWire(row), exists: row.exists });
  });

  routes.get("/v1/prices", async (c) => {
    const prices = await pricesOf(db, c.get("tenantId"));
    return json(
      c,
      prices.map(({ model, inputCost, outputCost }) => ({
        model,
        input_cost: inputCost,
        output_cost: outputCost,
      })),
    );
  });

  /** Per million tokens, for all models whose names begin so. */
  routes.put("/v1/prices/:model", async (c) => {
    const { input_cost: inputCost, output_cost: outputCost } = await readBody(c, priceBody);
    const model = text.min(1).max(200).safeParse(c.req.param("model"));
    if (!model.success) throw new EngineError("bad_request", "model: must have 1 to 200 characters");
    await putPrice(db, { tenantId: c.get("tenantId"), model: model.data, inputCost, outputCost });
    return json(c, { model: model.data, input_cost: inputCost, output_cost: outputCost });
  });

  return routes;
}

/** The day's budget is the tenant's: it has no other name than `tenant`. */
function keyOf(tenantId: TenantId, scope: string, refId: string) {
  if (!(BUDGET_SCOPES as readonly string[]).includes(scope)) {
    throw new EngineError("bad_request", `scope: must be one of ${BUDGET_SCOPES.join(", ")}`);
  }
  if (scope === "day") {
    if (refId !== "tenant") throw new EngineError("bad_request", "the budget of a day is at /v1/budgets/day/tenant");
    return { tenantId, scope: "day" as const, refId: tenantId as string };
  }
  if (!isUuid(refId)) throw new EngineError("bad_request", `${scope}: must be a UUID`);
  return { tenantId, scope: scope as BudgetScope, refId: refId.toLowerCase() };
}

function toWire(row: BudgetRow) {
  const refId = row.scope === "day" ? "tenant" : row.refId;
  return { scope: row.scope, ref_id: refId, ...limitsShape(row), updated_at: row.updatedAt };
}
