// A tool that declares what it does outside, so that an engine which may die at any moment does it once.
import { tool } from "@langchain/core/tools";
import type { z } from "zod";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { refuse } from "./call.js";
import { compensate } from "./compensate.js";
import type { EffectKind, OnUnknown } from "./effect.js";
import { effectSpec, type LookedUp } from "./effect-spec.js";
import { type CallConfig, IDEMPOTENCY_KEY, identityOf } from "./identity.js";
import { DURABLE_TOOL } from "./journaled-call.js";
import { inLocalEffect } from "./local-scope.js";
import { stoppedText } from "./messages.js";
import { type EffectsPort, effectsOf } from "./port.js";
import { insteadOf, questionsFirst } from "./questions.js";
import { runEffect } from "./run-effect.js";

/** How a call is made. */
export type EffectCall = Readonly<{
  /** 64 hex digits, the same for each attempt at this intent: give it to the other side as `Idempotency-Key`. */
  key: string;
  /** Aborted when the run stops or `timeoutMs` is over. */
  signal: AbortSignal;
  /** Of a local effect: its transaction in perdure's database. Tables of yours need their schema, as in `public.orders`. */
  tx?: Sql;
  config: CallConfig;
}>;

export type DurableToolOptions<Args> = Readonly<{
  name: string;
  description: string;
  /** A zod schema of an object; arguments are parsed by it. */
  schema: z.ZodType<Args>;
  /** none: nothing outside, no ledger. local: through `tx`, in one transaction with the ledger. remote: anything else. */
  effect: EffectKind;
  /**
   * What happens with a call of which nobody knows whether it was done: `ask` a person (default), look it up with `lookup`, `retry`
   * (only where the other side honours the key), or `fail` the run.
   */
  onUnknown?: OnUnknown;
  /** Whether it was done, and with what result; undefined when that can't be told: then a person is asked. */
  lookup?: ((args: Args, call: Readonly<{ key: string }>) => Promise<LookedUp>) | undefined;
  /** Undoes it. Called, with a key of its own, when a person aborts a call that may have been done. */
  compensate?: (args: Args, call: Readonly<{ key: string; signal: AbortSignal }>) => Promise<void>;
  /** 0 (can't be undone) to 1. Below 0.5 the same arguments within `dedupeWindowMs` are asked about, whatever call they come in. */
  reversibility?: number;
  /** 0 to 1: how bad it is when it is done wrongly. It stands in the question of `tier: "approval"`. */
  failureCost?: number;
  /** auto (default), `approval`: a person is asked before the first call; forbidden: never called. */
  tier?: "auto" | "approval" | "forbidden";
  /** Names the intent by its arguments (an order's number): the same name is the same effect, whoever calls. */
  key?: (args: Args) => string;
  /** 30 seconds unless said otherwise. */
  timeoutMs?: number;
  /** 10 minutes unless said otherwise. */
  dedupeWindowMs?: number;
}>;

const TIMEOUT_MS = 30_000;
const DEDUPE_WINDOW_MS = 600_000;
const IRREVERSIBLE_BELOW = 0.5;

/**
 * A LangChain tool whose calls are written down before they are made and after: on perdure each intent is called at most once,
 * over retries, crashes, resumes and replays; elsewhere it is a tool like any other.
 *
 * @example
 * const pay = durableTool(async ({ to, cents }, { key }) => bank.transfer({ to, cents }, { idempotencyKey: key }), {
 *   name: "pay", description: "Pays money", schema: z.object({ to: z.string(), cents: z.number() }),
 *   effect: "remote", onUnknown: "ask", reversibility: 0,
 * });
 * @throws TypeError when the options can't be meant
 */
export function durableTool<Args>(fn: (args: Args, call: EffectCall) => unknown, options: DurableToolOptions<Args>) {
  checkOptions(options);
  const made = tool(
    (args: unknown, config: unknown) => invoke(fn, options, args as Args, (config ?? {}) as CallConfig),
    {
      name: options.name,
      description: options.description,
      schema: options.schema as unknown as z.ZodObject,
    },
  );
  return Object.defineProperty(made, DURABLE_TOOL, { value: options.effect });
}

function checkOptions({
  name,
  onUnknown,
  lookup,
  reversibility = 0.5,
  failureCost = 0,
  ...rest
}: Omit<DurableToolOptions<never>, "schema" | "compensate" | "lookup" | "key"> & Readonly<{ lookup?: unknown }>) {
  const wrong = (what: string) => new TypeError(`durableTool "${name}": ${what}`);
  if (onUnknown === "lookup" && lookup === undefined) throw wrong(`onUnknown "lookup" needs a lookup function`);
  if (!(reversibility >= 0 && reversibility <= 1)) throw wrong("reversibility is a number from 0 to 1");
  if (!(failureCost >= 0 && failureCost <= 1)) throw wrong("failureCost is a number from 0 to 1");
  const { timeoutMs = TIMEOUT_MS, dedupeWindowMs = 0 } = rest;
  if (!(timeoutMs > 0 && timeoutMs < 2 ** 31)) throw wrong("timeoutMs is a positive number of milliseconds");
  if (!(dedupeWindowMs >= 0)) throw wrong("dedupeWindowMs is a number of milliseconds, 0 for none");
}

async function invoke<Args>(
  fn: (args: Args, call: EffectCall) => unknown,
  options: DurableToolOptions<Args>,
  args: Args,
  config: CallConfig,
): Promise<unknown> {
  const { name, effect, tier = "auto", timeoutMs = TIMEOUT_MS } = options;
  const port = effectsOf(config);
  if (port === undefined || effect === "none") {
    const identity = ownIdentity(port ?? NOWHERE, config, { tool: name, args, explicit: options.key?.(args) ?? null });
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(config.signal ? [config.signal] : [])]);
    return fn(args, { key: identity.key, signal, config });
  }
  const identity = ownIdentity(port, config, { tool: name, args, explicit: options.key?.(args) ?? null });
  const irreversible = (options.reversibility ?? 1) < IRREVERSIBLE_BELOW;
  const { lookup, compensate: undo } = options;
  const spec = effectSpec(
    {
      ...{ port, config, identity, tool: name, args, kind: effect, policy: options.onUnknown ?? "ask" },
      perform: ({ key, signal, tx }) =>
        tx === undefined
          ? Promise.resolve(fn(args, { key, signal, config }))
          : inLocalEffect(name, config, async () => fn(args, { key, signal, tx, config })),
    },
    {
      timeoutMs,
      dedupeWindowMs: irreversible ? (options.dedupeWindowMs ?? DEDUPE_WINDOW_MS) : 0,
      before: (row, twin) => questionsFirst(spec, options, row, twin),
      lookup: lookup === undefined ? null : (key) => lookup(args, { key }),
      aborted: async () => {
        if (undo !== undefined) await compensate(spec, (call) => undo(args, call));
        return insteadOf(spec, stoppedText(name, undo === undefined));
      },
    },
  );
  if (tier === "forbidden") {
    throw refuse(
      spec,
      new EngineError("effect_refused", `The tool "${name}" is forbidden (its tier)`, { details: { tool: name } }),
    );
  }
  return runEffect(spec);
}

/** A model's call that is written down already, for a tool of the same name that calls this one, is not this one's. */
function ownIdentity(...[port, config, call]: Parameters<typeof identityOf>): ReturnType<typeof identityOf> {
  const identity = identityOf(port, config, call);
  if (identity.key !== config.configurable?.[IDEMPOTENCY_KEY]) return identity;
  return identityOf(port, { ...config, toolCall: undefined }, call);
}

/** Outside of perdure a key is only as unique as its call. */
const NOWHERE = { tenantId: "" as EffectsPort["tenantId"], threadId: "" as EffectsPort["threadId"] };
