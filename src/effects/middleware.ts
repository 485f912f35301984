// Middleware for langchain's `createAgent`: what the model answered and what tools returned is kept as soon as it is there, and
// not when the agent's step is over.
import { createMiddleware } from "langchain";
import { DURABLE_TOOL } from "./durable-tool.js";
import { journaledCall } from "./journaled-call.js";
import { effectsOf } from "./port.js";
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
    wrapToolCall: async (request, handler) => {
      const { tool, toolCall, runtime } = request;
      const port = effectsOf(runtime);
      if (port === undefined || (tool as { [DURABLE_TOOL]?: true } | undefined)?.[DURABLE_TOOL] === true)
        return handler(request);
      const config = { ...runtime, toolCall } as Parameters<typeof journaledCall>[1];
      const kept = journaledCall(port, config, { tool: toolCall.name, args: toolCall.args, policy: "retry" }, () =>
        Promise.resolve(handler(request)),
      );
      return (await kept) as Awaited<ReturnType<typeof handler>>;
    },
  });
}
