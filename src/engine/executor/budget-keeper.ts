// Keeps an attempt within its budgets: before a model is called, what the call may take at most is reserved, or the attempt ends;
// what it took is settled by the commit that holds its answer.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { budgetsOfRun } from "../../budgets/budgets.js";
import { insertCall, lockReservations, releaseCall } from "../../budgets/model-calls.js";
import {
  BudgetExceeded,
  type BudgetPolicy,
  costOf,
  estimateOf,
  type Exceeded,
  exceeded,
  hasLimits,
  type Price,
  priceOf,
  type Usage,
} from "../../core/budget.js";
import type { Deps, Sql } from "../../core/deps.js";
import { classify } from "../../core/failure.js";
import { retryTransient } from "../../db/retry-transient.js";
import { appendEvent } from "../../runs/events.js";
import { ownsRun } from "../../runs/guard.js";
import { budgetsFor, pricesOf, spentOf } from "../budgets.js";
import { leaseLost } from "../lease-lost.js";
import type { Attempt } from "./attempt.js";
import { inputChars, maxOutputTokens, modelOf, usageOf } from "./model-call.js";

type Fields = Readonly<Record<string, unknown>> | undefined;
type Reserved = Readonly<{ callId: string; usage: Usage; price: Price | null; model: string | null }>;

const RELEASE_MS = 5_000;

/** Null for a run without a budget: then nobody has to be told of its calls. */
export function budgetKeeper(
  deps: Deps,
  attempt: Attempt,
  policy: BudgetPolicy,
  flushed: () => Promise<void>,
): BudgetKeeper | null {
  return hasLimits(policy) || attempt.run.budgeted ? new BudgetKeeper(deps, attempt, policy, flushed) : null;
}

class BudgetKeeper extends BaseCallbackHandler {
  readonly name = "perdure_budget_keeper";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;
  private readonly calls = new Map<string, Reserved>();
  private prices: Promise<readonly Price[]> | undefined;

  constructor(
    private readonly deps: Deps,
    private readonly attempt: Attempt,
    private readonly policy: BudgetPolicy,
    private readonly flushed: () => Promise<void>,
  ) {
    super();
  }

  override handleChatModelStart(
    _model: unknown,
    messages: unknown,
    callId: string,
    _parent?: string,
    extra?: Fields,
    _tags?: readonly string[],
    metadata?: Fields,
  ): Promise<void> {
    return this.reserve(callId, messages, extra, metadata);
  }
  override handleLLMStart(
    _model: unknown,
    prompts: unknown,
    callId: string,
    _parent?: string,
    extra?: Fields,
    _tags?: readonly string[],
    metadata?: Fields,
  ): Promise<void> {
    return this.reserve(callId, prompts, extra, metadata);
  }

  override handleLLMEnd(output: unknown, callId: string): void {
    const call = this.calls.get(callId);
    if (call === undefined) return;
    this.calls.delete(callId);
    const usage = usageOf(output);
    // A provider that doesn't say what a call took has taken what was reserved.
    this.attempt.calls.push({ callId, usage: usage && { ...usage, cost: costOf(usage, call.price) } });
  }

  /** What was refused has cost nothing. Whether a call that was cut off did can't be known: it stays reserved. */
  override async handleLLMError(error: unknown, callId: string): Promise<void> {
    const call = this.calls.get(callId);
    this.calls.delete(callId);
    const { class: kind, code } = classify(error, 0);
    if (call === undefined || this.attempt.stop.aborted || kind === "retryable" || code === null) return;
    const release = () => releaseCall(this.deps.db, this.attempt.lease, callId);
    await retryTransient(release, { ...this.deps, deadlineMs: RELEASE_MS }).catch(() => undefined);
  }

  private async reserve(callId: string, input: unknown, extra: Fields, metadata: Fields): Promise<void> {
    const { deps, attempt } = this;
    await this.flushed();
    attempt.stop.throwIfAborted();
    this.prices ??= pricesOf(deps.db, attempt.lease.tenantId);
    const model = modelOf(extra, metadata);
    const usage = estimateOf(inputChars(input, extra), maxOutputTokens(extra));
    const call = { callId, usage, model, price: priceOf(model, await this.prices) };
    const again = { ...deps, deadlineMs: Number.POSITIVE_INFINITY, signal: attempt.stop };
    const found = await retryTransient(() => deps.db.tx((sql) => this.tryToReserve(sql, call)), again);
    if (found === null) {
      this.calls.set(callId, call);
      return;
    }
    const error = new BudgetExceeded(found);
    // The graph may swallow what a model throws: the attempt ends all the same.
    attempt.fail(error);
    throw error;
  }

  /** Null when it is reserved; else what it doesn't fit into, which stands in the run's log then. */
  private async tryToReserve(sql: Sql, { callId, usage, model, price }: Reserved): Promise<Exceeded | null> {
    const { lease } = this.attempt;
    const budgets = budgetsFor(this.policy, await budgetsOfRun(sql, lease));
    const scopes = budgets.map(({ scope }) => scope);
    await lockReservations(sql, lease, scopes);
    if (!(await ownsRun(sql, lease))) throw leaseLost(lease);
    const tokens = usage.inputTokens + usage.outputTokens;
    const cost = costOf(usage, price);
    const next = { cost, tokens, steps: 1, activeMs: 0 };
    for (const budget of budgets) {
      const spent = await spentOf(sql, lease, budget, callId);
      const found = exceeded(budget.scope, budget.limits, spent, next);
      if (found === null) continue;
      const { scope, what, limit } = found;
      const payload = { scope, what, limit, spent: found.spent };
      await appendEvent(sql, lease, { type: "budget.exceeded", attempt: lease.attempt, payload });
      return found;
    }
    await insertCall(sql, lease, { callId, model, tokens, cost, priced: price !== null });
    return null;
  }
}
