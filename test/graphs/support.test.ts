// The support agent by itself, without perdure: what the example promises to a reader.
import type { BaseMessage, ToolMessage } from "@langchain/core/messages";
import { Command } from "@langchain/langgraph";
import { beforeAll, expect, test } from "vitest";
import { type Graph, loadInMemory } from "./load.js";

const complaint = { messages: [{ role: "user", content: "My order 1042 arrived broken, I want my money back." }] };
type State = Readonly<{ messages: BaseMessage[]; __interrupt__?: unknown[] }>;

let agent: Graph;
beforeAll(async () => {
  agent = await loadInMemory("support");
});

async function invoke(thread: string, input: unknown): Promise<State> {
  return (await agent.invoke(input, { configurable: { thread_id: thread } })) as State;
}

function decide(type: string): Command {
  return new Command({ resume: { decisions: [{ type }] } });
}

test("it looks up order and parcel at once, then asks before it gives money back", async () => {
  const state = await invoke("asks", complaint);
  expect(state.messages.map((message) => message.type)).toEqual(["human", "ai", "tool", "tool", "ai"]);
  expect(state.__interrupt__).toMatchObject([
    { value: { actionRequests: [{ name: "refund", args: { order_id: "1042", amount: "129.00 EUR" } }] } },
  ]);
});

test("approved, it pays back once and says so", async () => {
  await invoke("approved", complaint);
  const { messages } = await invoke("approved", decide("approve"));
  const refunds = messages.filter((message) => (message as ToolMessage).name === "refund");
  expect(refunds).toHaveLength(1);
  expect(refunds[0]?.text).toMatch(/^paid 129.00 EUR back for order 1042 \(call_/);
  expect(messages.at(-1)?.text).toBe("Done: 129.00 EUR are on their way back to you.");
});

test("rejected, it pays nothing and says so", async () => {
  await invoke("rejected", complaint);
  const { messages } = await invoke("rejected", decide("reject"));
  expect(messages.some((message) => message.text.startsWith("paid"))).toBe(false);
  expect(messages.at(-1)?.text).toContain("decided against the refund");
});

test("it asks for the order number when there is none, and answers without a refund when nothing is broken", async () => {
  const first = await invoke("talk", { messages: [{ role: "user", content: "Where is my parcel?" }] });
  expect(first.messages.at(-1)?.text).toContain("four digits");
  const second = await invoke("talk", { messages: [{ role: "user", content: "It is order 1043" }] });
  expect(second.messages.at(-1)?.text).toBe("Order 1043: milk jug, 18.50 EUR. Parcel of 1043: delivered on Monday.");
});
