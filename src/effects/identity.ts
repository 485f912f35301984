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

/** Where a run's request says that what was done once is to be done again: a number above 0. */
const EFFECT_EPOCH = "effect_epoch";

export type Identity = Readonly<{ key: string; argsHash: string; epoch: number; task: string }>;

/** `explicit` names the intent instead of the call; without either it is its arguments in its task. */
export function identityOf(
  port: Pick<EffectsPort, "tenantId" | "threadId">,
  config: CallConfig,
  call: Readonly<{ tool: string; args: unknown; explicit: string | null }>,
): Identity {
  const { tool, args, explicit } = call;
  const argsHash = hashOfArgs(args);
  const epoch = epochOf(config);
  const task = taskOf(config);
  const id = config.toolCall?.name === tool ? config.toolCall.id : undefined;
  const who =
    explicit !== null
      ? ["key", explicit]
      : id !== undefined
        ? ["call", messageIdOf(config, id), id]
        : ["task", task, argsHash];
  return { key: keyOf(port, [...who, tool, String(epoch)]), argsHash, epoch, task };
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

function epochOf(config: CallConfig): number {
  const epoch = config.configurable?.[EFFECT_EPOCH];
  return typeof epoch === "number" && Number.isSafeInteger(epoch) && epoch > 0 ? epoch : 0;
}

type Scratchpad = Readonly<{ currentTaskInput?: unknown }>;
type Message = Readonly<{ id?: unknown; tool_calls?: unknown }>;

/** The id of the message that made the call; a message without one is known by its place. */
function messageIdOf(config: CallConfig, toolCallId: string): string {
  const pad = config.configurable?.["__pregel_scratchpad"] as Scratchpad | undefined;
  const input = pad?.currentTaskInput;
  const lists = Array.isArray(input) ? [input] : Object.values(input ?? {}).filter(Array.isArray);
  for (const list of lists as (readonly unknown[])[]) {
    const at = list.findLastIndex((message) => makesCall(message as Message | null, toolCallId));
    if (at === -1) continue;
    const { id } = list[at] as Message;
    return typeof id === "string" ? id : `at:${at}`;
  }
  return "";
}

function makesCall(message: Message | null, toolCallId: string): boolean {
  const calls = message?.tool_calls;
  return Array.isArray(calls) && calls.some((call) => (call as { id?: unknown } | null)?.id === toolCallId);
}
