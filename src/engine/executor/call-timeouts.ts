// Time limits of an attempt's calls, per class: a tool, a model, and a model that streams and falls silent. A call that takes
// longer ends the attempt, through its signal; what failed is tried again as any failure that may pass.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { CallTimeout } from "../../core/failure.js";
import type { Timeouts } from "../../core/policy.js";

type Name = Readonly<{ id?: readonly string[]; name?: string }> | undefined;
type Fields = Readonly<Record<string, unknown>> | undefined;
type Call = { readonly name: string; whole: NodeJS.Timeout | undefined; silence: NodeJS.Timeout | undefined };

/** Null when there is nothing to watch: then nobody has to be told of calls. */
export function callTimeouts(timeouts: Timeouts, fail: (why: CallTimeout) => void): CallTimeouts | null {
  const { toolMs, modelMs, betweenTokensMs } = timeouts;
  return (toolMs ?? modelMs ?? betweenTokensMs) === null ? null : new CallTimeouts(timeouts, fail);
}

export class CallTimeouts extends BaseCallbackHandler {
  readonly name = "perdure_call_timeouts";
  /** Told at once: a call that is over must not be cut off. */
  override readonly awaitHandlers = true;
  private readonly calls = new Map<string, Call>();

  constructor(
    private readonly timeouts: Timeouts,
    private readonly fail: (why: CallTimeout) => void,
  ) {
    super();
  }

  /** Forgets all calls: the attempt is over. */
  stop(): void {
    for (const runId of [...this.calls.keys()]) this.end(runId);
  }

  override handleChatModelStart(
    model: Name,
    _messages: unknown,
    runId: string,
    _parent?: string,
    _extra?: Fields,
    _tags?: readonly string[],
    metadata?: Fields,
  ): void {
    this.begin("model", runId, modelName(model, metadata), this.timeouts.modelMs);
  }
  override handleLLMStart(
    model: Name,
    _prompts: unknown,
    runId: string,
    _parent?: string,
    _extra?: Fields,
    _tags?: readonly string[],
    metadata?: Fields,
  ): void {
    this.begin("model", runId, modelName(model, metadata), this.timeouts.modelMs);
  }
  override handleToolStart(
    tool: Name,
    _input: string,
    runId: string,
    _parent?: string,
    _tags?: readonly string[],
    _metadata?: Fields,
    name?: string,
  ): void {
    this.begin("tool", runId, name ?? tool?.name ?? "tool", this.timeouts.toolMs);
  }

  override handleLLMNewToken(_token: string, _index: unknown, runId: string): void {
    const call = this.calls.get(runId);
    const ms = this.timeouts.betweenTokensMs;
    if (call === undefined || ms === null) return;
    clearTimeout(call.silence);
    call.silence = setTimeout(() => this.fail(new CallTimeout("token", call.name, ms)), ms);
  }

  override handleLLMEnd(_output: unknown, runId: string): void {
    this.end(runId);
  }
  override handleLLMError(_error: unknown, runId: string): void {
    this.end(runId);
  }
  override handleToolEnd(_output: unknown, runId: string): void {
    this.end(runId);
  }
  override handleToolError(_error: unknown, runId: string): void {
    this.end(runId);
  }

  private begin(what: "tool" | "model", runId: string, name: string, ms: number | null): void {
    const whole = ms === null ? undefined : setTimeout(() => this.fail(new CallTimeout(what, name, ms)), ms);
    this.calls.set(runId, { name, whole, silence: undefined });
  }

  private end(runId: string): void {
    const call = this.calls.get(runId);
    clearTimeout(call?.whole);
    clearTimeout(call?.silence);
    this.calls.delete(runId);
  }
}

/** As the provider names it, else the name of its class. */
function modelName(model: Name, metadata: Fields): string {
  const named = metadata?.["ls_model_name"];
  return typeof named === "string" ? named : (model?.id?.at(-1) ?? "model");
}
