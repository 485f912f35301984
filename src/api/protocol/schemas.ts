// What clients of the thread protocol send: commands, and what they want to be shown.
import { isSupportedChannel } from "../../engine/protocol/channels.js";
import { z } from "zod";
import { absent, noTracer } from "../schemas/parts.js";

const number = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const anything = z.unknown();

export const commandBody = z.object({ id: number, method: z.string().max(100), params: anything.optional() });
export type CommandBody = z.output<typeof commandBody>;

const namespace = z.array(z.string().max(1_000)).max(100);
const channel = z
  .string()
  .max(200)
  .refine(
    isSupportedChannel,
    "must be values, updates, messages, tools, lifecycle, input, checkpoints, tasks, custom or custom:<name>",
  );

export const subscriptionParams = z.object({
  channels: z.array(channel).min(1).max(100),
  namespaces: absent(z.array(namespace).max(1_000)),
  depth: absent(number),
});
export const eventsBody = subscriptionParams.extend({ since: absent(number) });
export const unsubscribeParams = z.object({ subscription_id: z.string() });

/** What of it the routes of runs take as well is checked as they do. */
export const runStartParams = z.looseObject({
  assistant_id: z.string().min(1),
  input: anything.optional(),
  config: anything.optional(),
  context: anything.optional(),
  metadata: anything.optional(),
  multitaskStrategy: anything.optional(),
  multitask_strategy: anything.optional(),
  langsmith_tracer: noTracer,
});

const answer = z.object({
  namespace: absent(namespace),
  interrupt_id: z.string(),
  response: anything.optional(),
});
const besides = {
  update: anything.optional(),
  goto: anything.optional(),
  config: anything.optional(),
  metadata: anything.optional(),
  strict_resume: absent(
    z.boolean().refine((value) => value, "false is not supported: an answer to a closed question is always refused"),
  ),
};
export const respondParams = z.union([
  z.object({ responses: z.array(answer).min(1).max(1_000), ...besides }),
  answer.extend(besides).transform(({ namespace: ns, interrupt_id, response, ...rest }) => ({
    ...rest,
    responses: [{ namespace: ns, interrupt_id, response }],
  })),
]);

export const stateParams = z.object({ namespace: absent(namespace), keys: absent(z.array(z.string())) });
export const treeParams = z.object({ run_id: absent(z.uuid()) });
