// What makes two calls the same intent. An intent keeps its key over retries, crashes, resumes and replays of a state; a model's
// tool call is one, known by its message and its id in it (some models give `call_0` in every turn).
import { createHash } from "node:crypto";
import { canonicalSha256 } from "../core/canonical.js";
import type { EffectsPort } from "./port.js";

/** What of a config tells who calls. */
export type CallConfig = Readonly<{
  configurable?: Readonly<Record<string, unknown>> | undefined;
  toolCall?: Readonly<{ id?: string; name?: string }> | undefined;
  signal?: AbortSignal | undefined;
}>;

/** Where a tool that declares nothing finds its key in `config.configurable`: 64 hex digits, the same for each attempt at the call. */
export const IDEMPOTENCY_KEY = "idempotency_key";

/** Where a run's request says that what was done once is to be done again: a number above 0. */
const EFFECT_EPOCH = "effect_epoch";

/** `scope` is where questions are counted: the task, or the tool's call in it that this call is part of. */
export type Identity = Readonly<{ key: string; argsHash: string; epoch: number; task: string; scope: string }>;

/** `explicit` names the intent instead of the call; without either it is its arguments in the call around it, or in its task. */
export function identityOf(
  port: Pick<EffectsPort, "tenantId" | "threadId">,
  config: CallConfig,
  call: Readonly<{ tool: string; args: unknown; explicit: string | null }>,
): Identity {
  const { tool, args, explicit } = call;
  const argsHash = hashOfArgs(args);
  const epoch = epochOf(config);
  const task = taskOf(config);
  const scope = scopeOf(config);
  const id = config.toolCall?.name === tool ? config.toolCall.id : undefined;
  const place = { argsHash, epoch, task, scope };
  if (explicit === null && id !== undefined) {
    return { key: keyOfCall(port, { messageId: messageIdOf(config, id), callId: id, tool, epoch }), ...place };
  }
  // A call that is written down is the same intent in a fork, where the task is another.
  const around = aroundOf(config);
  const where = around === undefined ? ["task", scope] : ["within", around];
  const who = explicit === null ? [...where, argsHash] : ["key", explicit];
  return { key: keyOf(port, [...who, tool, String(epoch)]), ...place };
}

/** The key of a model's tool call. */
export function keyOfCall(
  port: Pick<EffectsPort, "tenantId" | "threadId">,
  { messageId, callId, tool, epoch }: Readonly<{ messageId: string; callId: string; tool: string; epoch: number }>,
): string {
  return keyOf(port, ["call", messageId, callId, tool, String(epoch)]);
}

export function keyOf({ tenantId, threadId }: Pick<EffectsPort, "tenantId" | "threadId">, parts: readonly string[]) {
  const all = ["v1", tenantId, threadId, ...parts];
  return createHash("sha256").update(all.join("\0")).digest("hex");
}

/** sha256 in hex of the arguments as JSON, whatever order their keys are in. */
export function hashOfArgs(args: unknown): string {
  const json = JSON.stringify(args ?? null, (_, value: unknown) =>
    typeof value === "bigint" ? `${value.toString()}n` : value,
  );
  return canonicalSha256(JSON.parse(json)).toString("hex");
}

export function taskOf(config: CallConfig): string {
  const task = config.configurable?.["__pregel_task_id"];
  return typeof task === "string" ? task : "";
}

export function scopeOf(config: CallConfig): string {
  const around = aroundOf(config);
  return around === undefined ? taskOf(config) : `${taskOf(config)}/${around}`;
}

/** The key of the call that this one is part of. */
function aroundOf(config: CallConfig): string | undefined {
  const around = config.configurable?.[IDEMPOTENCY_KEY];
  return typeof around === "string" ? around : undefined;
}

function epochOf(config: CallConfig): number {
  const epoch = config.configurable?.[EFFECT_EPOCH];
  return typeof epoch === "number" && Number.isSafeInteger(epoch) && epoch > 0 ? epoch : 0;
}

type Scratchpad = Readonly<{ currentTaskInput?: unknown }>;
type Message = Readonly<{ id?: unknown; tool_calls?: unknown }>;

/** The place of a call among those that are made in its task: 0 where it is alone. */
export function placeOf(config: CallConfig): number {
  const id = config.toolCall?.id;
  const pad = config.configurable?.["__pregel_scratchpad"] as Scratchpad | undefined;
  const isAlone = typeof pad?.currentTaskInput === "object" && "lg_tool_call" in (pad.currentTaskInput ?? {});
  if (isAlone || id === undefined) return 0;
  const calls = (messageOf(config, id)?.message.tool_calls ?? []) as readonly { id?: unknown }[];
  return Math.max(
    0,
    calls.findIndex((call) => call.id === id),
  );
}

/** The id of the message that made the call; a message without one is known by its place. */
function messageIdOf(config: CallConfig, toolCallId: string): string {
  const found = messageOf(config, toolCallId);
  if (found === undefined) return "";
  return typeof found.message.id === "string" ? found.message.id : `at:${found.at}`;
}

function messageOf(config: CallConfig, toolCallId: string): Readonly<{ message: Message; at: number }> | undefined {
  const pad = config.configurable?.["__pregel_scratchpad"] as Scratchpad | undefined;
  const input = pad?.currentTaskInput;
  const lists = Array.isArray(input) ? [input] : Object.values(input ?? {}).filter(Array.isArray);
  for (const list of lists as (readonly unknown[])[]) {
    const at = list.findLastIndex((message) => makesCall(message as Message | null, toolCallId));
    if (at === -1) continue;
    return { message: list[at] as Message, at };
  }
  return undefined;
}

function makesCall(message: Message | null, toolCallId: string): boolean {
  const calls = message?.tool_calls;
  return Array.isArray(calls) && calls.some((call) => (call as { id?: unknown } | null)?.id === toolCallId);
}
