// Middleware for langchain's `createAgent`: what the model answered and what tools returned is kept as soon as it is there, and
// not when the agent's step is over.
import type { BaseMessage } from "@langchain/core/messages";
import { createMiddleware } from "langchain";
import { type CallConfig, hashOfArgs } from "./identity.js";
import { journaledCall } from "./journaled-call.js";
import { step } from "./step.js";

/**
 * Keeps each answer of the model and each result of a tool by itself, so that a node which is entered again (after a crash, or an
 * error of other middleware) asks neither again: the same model with the same request gives the kept answer. A call that is made
 * is within the run's budgets, as any other. Tools of `durableTool` keep their own books and are left to them.
 *
 * @example createAgent({ model, tools, middleware: [durableMiddleware()] })
 */
export function durableMiddleware() {
  return createMiddleware({
    name: "DurableMiddleware",
    wrapModelCall: (request, handler) =>
      step(`model:${fingerprint(request)}`, () => handler(request) as Promise<never>),
    wrapToolCall: async ({ tool, toolCall, runtime, ...request }, handler) => {
      const { name, id, args } = toolCall;
      const call = { name, id, args, tool: tool as object | undefined };
      return journaledCall(runtime as CallConfig, call, async ({ configurable }) =>
        handler({ ...request, tool, toolCall, runtime: { ...runtime, configurable } as typeof runtime }),
      );
    },
  });
}

type Request = Readonly<{
  model: unknown;
  messages: readonly BaseMessage[];
  systemMessage?: BaseMessage | undefined;
  tools?: readonly unknown[];
  toolChoice?: unknown;
  modelSettings?: unknown;
}>;

/** What is asked of which model. Ids of messages are left out: middleware may mint new ones each time. */
function fingerprint({ model, messages, systemMessage, tools = [], toolChoice, modelSettings }: Request): string {
  const { model: name, modelName } = model as { model?: unknown; modelName?: unknown };
  const all = systemMessage === undefined ? messages : [systemMessage, ...messages];
  return hashOfArgs({
    model: [name, modelName].find((each) => typeof each === "string") ?? null,
    messages: all.map(contentOf),
    tools: tools.map((tool) => (tool as { name?: unknown }).name ?? tool),
    ...{ toolChoice, modelSettings },
  });
}

function contentOf(message: BaseMessage): object {
  const { content, name, tool_calls, tool_call_id } = message as BaseMessage & Readonly<Record<string, unknown>>;
  return { type: message.getType(), content, name, tool_calls, tool_call_id };
}
