// Middleware for langchain's `createAgent`: what the model answered and what tools returned is kept as soon as it is there, and
// not when the agent's step is over.
import { createMiddleware } from "langchain";
import type { CallConfig } from "./identity.js";
import { journaledCall } from "./journaled-call.js";
import { step } from "./step.js";

/**
 * Keeps each answer of the model and each result of a tool by itself, so that a node which is entered again (after a crash, or an
 * error of other middleware) asks neither again. Tools of `durableTool` keep their own books and are left to them.
 *
 * @example createAgent({ model, tools, middleware: [durableMiddleware()] })
 */
export function durableMiddleware() {
  return createMiddleware({
    name: "DurableMiddleware",
    wrapModelCall: (request, handler) =>
      step(`model:${request.messages.length}`, () => handler(request) as Promise<never>),
    wrapToolCall: async ({ tool, toolCall, runtime, ...request }, handler) => {
      const { name, id, args } = toolCall;
      const call = { name, id, args, tool: tool as object | undefined };
      return journaledCall(runtime as CallConfig, call, async ({ configurable }) =>
        handler({ ...request, tool, toolCall, runtime: { ...runtime, configurable } as typeof runtime }),
      );
    },
  });
}
