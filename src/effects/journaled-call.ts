// A call of a tool that declares nothing: written down before it is made and after, under a key that the tool finds in its config;
// what it returned is kept by itself, and the questions it asks are its own, also where several are called in one task.
import { isCommand } from "@langchain/langgraph";
import { effectSpec } from "./effect-spec.js";
import { type CallConfig, IDEMPOTENCY_KEY, identityOf, placeOf, scopeOf } from "./identity.js";
import { type CalledTool, messageFor, resultFor, stoppedText } from "./messages.js";
import { withOwnAnswers } from "./own-questions.js";
import { effectsOf } from "./port.js";
import { questionsFirst } from "./questions.js";
import { runEffect } from "./run-effect.js";
import { taskCalls, whileRunning } from "./task-calls.js";

/** What a tool has that does its own books: its effect. Its calls are not for others to write down. */
export const DURABLE_TOOL: unique symbol = Symbol.for("perdure.durable_tool") as never;

type Called = CalledTool & Readonly<{ args: unknown; tool: object | undefined }>;

/**
 * A tool node's call: what the node makes of it, its messages for errors included. `work` gets the config to call with. It is just
 * `work` outside of perdure, where nothing is stored, for tools that keep their own books, and for names that no tool has.
 */
export async function journaledCall<T>(
  given: CallConfig,
  call: Called,
  work: (config: CallConfig) => Promise<T>,
): Promise<T> {
  const { name: tool, id, args } = call;
  const config: CallConfig = { ...given, toolCall: { name: tool, ...(id === undefined ? {} : { id }) } };
  const port = effectsOf(config);
  const policy = port?.undeclared ?? null;
  if (port === undefined || policy === null || call.tool === undefined) return work(given);
  // One that asks waits for all calls of its task, so that none is cut off.
  if (DURABLE_TOOL in call.tool) return whileRunning(taskCalls(port.tasks, scopeOf(config)), () => work(given));
  const identity = identityOf(port, config, { tool, args, explicit: null });
  const { scope, key } = identity;
  // Written down already, by what is around.
  if (config.configurable?.[IDEMPOTENCY_KEY] === key) return work(given);
  const spec = effectSpec(
    {
      ...{ port, config, identity, tool, args, policy, kind: "undeclared" },
      perform: ({ row }) => {
        const own = { ...given, configurable: { ...given.configurable, [IDEMPOTENCY_KEY]: key } };
        return withOwnAnswers(own, row, { scope, place: placeOf(config) }, work);
      },
    },
    {
      before: (row) => (policy === "ask" ? questionsFirst(spec, {}, row, undefined) : Promise.resolve(null)),
      aborted: () => Promise.resolve(messageFor(call, stoppedText(tool, true))),
    },
  );
  const output = await runEffect(spec);
  // What a person says was the result is no message yet.
  return (isCommand(output) ? output : resultFor(call, output)) as T;
}
