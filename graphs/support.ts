// A support agent: it looks things up by itself, and asks a person before it gives money back.
// Try it: "My order 1042 arrived broken, I want my money back."
import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createAgent, humanInTheLoopMiddleware, tool, type ToolRuntime } from "langchain";
import { z } from "zod";
import { chooseModel } from "./model.js";
import type { Reply } from "./scripted-model.js";
import { findOrder, payBack, trackParcel } from "./shop.js";

const lookUpOrder = tool(
  async ({ order_id }) => {
    const order = await findOrder(order_id);
    return order ? `Order ${order.id}: ${order.item}, ${order.paid}` : `There is no order ${order_id}`;
  },
  {
    name: "look_up_order",
    description: "What was ordered, and what was paid for it",
    schema: z.object({ order_id: z.string() }),
  },
);

const trackOrder = tool(async ({ order_id }) => `Parcel of ${order_id}: ${await trackParcel(order_id)}`, {
  name: "track_parcel",
  description: "Where the parcel of an order is, and in which state",
  schema: z.object({ order_id: z.string() }),
});

const Refund = z.object({ order_id: z.string(), amount: z.string(), reason: z.string() });
const refund = tool(
  // The id of the tool call is the same in every attempt, which makes it the key that pays once.
  async ({ order_id, amount }: z.infer<typeof Refund>, runtime: ToolRuntime) =>
    payBack(order_id, amount, runtime.toolCallId),
  {
    name: "refund",
    description: "Gives the money of an order back",
    schema: Refund,
  },
);

export const agent = createAgent({
  model: await chooseModel("support", supportScript),
  tools: [lookUpOrder, trackOrder, refund],
  systemPrompt: "You help customers of a small shop. Look at the order and its parcel before you decide anything.",
  middleware: [
    humanInTheLoopMiddleware({
      interruptOn: { refund: { allowedDecisions: ["approve", "edit", "reject"], description: "Give money back?" } },
    }),
  ],
});

/** Look at order and parcel at once; ask for the refund if the parcel is damaged; say what came of it. */
function supportScript(conversation: readonly BaseMessage[]): Reply {
  const asked = conversation.findLastIndex((message) => HumanMessage.isInstance(message));
  const order_id = /\b\d{4}\b/.exec(conversation[asked]?.text ?? "")?.[0];
  if (order_id === undefined) return { text: "Of course. Which order is it about? Please tell me its four digits." };

  const results = conversation.slice(asked + 1).filter((message) => ToolMessage.isInstance(message));
  const result = (name: string) => results.find((message) => message.name === name);
  const order = result("look_up_order");
  const parcel = result("track_parcel");
  if (!order || !parcel) {
    return {
      text: "Let me look at your order and its parcel. ",
      toolCalls: [
        { name: "look_up_order", args: { order_id } },
        { name: "track_parcel", args: { order_id } },
      ],
    };
  }

  const amount = /[\d.]+ EUR/.exec(order.text)?.[0];
  if (amount === undefined || !parcel.text.includes("damaged")) return { text: `${order.text}. ${parcel.text}.` };

  const refunded = result("refund");
  if (!refunded) {
    return {
      text: `The parcel was damaged, so you should get ${amount} back. I ask a colleague to confirm. `,
      toolCalls: [{ name: "refund", args: { order_id, amount, reason: "damaged in transit" } }],
    };
  }
  return refunded.status === "error"
    ? { text: `I am sorry: a colleague decided against the refund of ${amount}. They will write to you.` }
    : { text: `Done: ${amount} are on their way back to you.` };
}
