// The life that is cut short at every boundary: a model plans a payment, a person allows it, a tool pays, the model says so.
import { interrupt, MessagesAnnotation, START, StateGraph, Annotation, END } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { NO_LIMITS } from "../../../src/core/budget.js";
import type { RunPolicy } from "../../../src/core/policy.js";
import { DEFAULT_POLICY } from "../../../src/core/policy.js";
import { scriptedModel } from "../../../src/testing/scripted-model.js";
import { durableTool } from "../../../src/tools.js";

/** What a payment's tool says, or langgraph.json for it, of what nobody knows. */
export const POLICIES = ["ask", "lookup", "retry", "fail", "local", "undeclared-ask", "undeclared-retry"] as const;
export type Policy = (typeof POLICIES)[number];

const service = (): string => process.env["CRASH_SERVICE"] ?? "";

async function pay(intent: string, key: string): Promise<string> {
  await fetch(`${service()}/pay?${new URLSearchParams({ intent, key }).toString()}`, { method: "POST" });
  return "paid";
}

async function lookUp(intent: string) {
  const response = await fetch(`${service()}/paid?${new URLSearchParams({ intent }).toString()}`);
  const { done } = (await response.json()) as { done: boolean };
  return done ? { done, result: "paid" } : { done };
}

const about = { description: "pays", schema: z.object({ intent: z.string() }) };

function remote(onUnknown: "ask" | "lookup" | "retry" | "fail") {
  return durableTool<{ intent: string }>(({ intent }, { key }) => pay(intent, key), {
    ...about,
    name: onUnknown,
    effect: "remote",
    onUnknown,
    lookup: onUnknown === "lookup" ? ({ intent }) => lookUp(intent) : undefined,
  });
}

const local = durableTool<{ intent: string }>(
  async ({ intent }, { tx }) => {
    await tx?.query("insert into public.payments (intent) values ($1)", [intent]);
    return "paid";
  },
  { ...about, name: "local", effect: "local" },
);

function undeclared(name: Policy) {
  return tool(
    ({ intent }: { intent: string }, config) => pay(intent, String(config.configurable?.["idempotency_key"])),
    { ...about, name },
  );
}

const tools = [
  ...(["ask", "lookup", "retry", "fail"] as const).map(remote),
  local,
  undeclared("undeclared-ask"),
  undeclared("undeclared-retry"),
];

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  intent: Annotation<string>(),
  policy: Annotation<string>(),
});

const usage = { input: 100, output: 50 };

export const life = new StateGraph(State)
  .addNode("model", async ({ messages, intent, policy }) => {
    const call = { toolCalls: [{ id: `call-${intent}`, name: policy, args: { intent } }], usage };
    const model = scriptedModel([call, { text: "done", usage }]);
    return { messages: [await model.invoke(messages)] };
  })
  .addNode("gate", () => {
    if (interrupt({ question: "pay?" }) !== "yes") throw new Error("it was allowed");
    return {};
  })
  .addNode("pay", new ToolNode(tools, { handleToolErrors: false }))
  .addEdge(START, "model")
  .addConditionalEdges("model", ({ messages }) => (messages.length > 2 ? END : "gate"), ["gate", END])
  .addEdge("gate", "pay")
  .addEdge("pay", "model")
  .compile();

const budgeted: RunPolicy = {
  ...DEFAULT_POLICY,
  budget: {
    ...DEFAULT_POLICY.budget,
    limits: { run: { ...NO_LIMITS, tokens: 100_000 }, thread: NO_LIMITS, day: NO_LIMITS },
  },
};

export const policies: Readonly<Record<"life" | "cautious", RunPolicy>> = {
  life: { ...budgeted, undeclaredTools: "retry" },
  cautious: { ...budgeted, undeclaredTools: "ask" },
};

/** The graph whose settings say what the policy is about. */
export const graphOf = (policy: Policy): keyof typeof policies => (policy === "undeclared-ask" ? "cautious" : "life");
