// "I'll get back to you": promised in a turn, kept later, where it was asked.
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { scheduleFollowup } from "../../src/tools.js";
import { withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

/** Promises what it is told, as JSON; works on follow-ups by saying so. */
function promising() {
  const model = ({ messages }: { messages: BaseMessage[] }) => {
    const last = messages.at(-1);
    const text = last?.text ?? "";
    if (last?.getType() === "tool") return { messages: [new AIMessage(`promised: ${text}`)] };
    if (last?.additional_kwargs["followup"] === true) {
      return { messages: [new AIMessage(`done (${messages.length} messages before)`)] };
    }
    if (!text.startsWith("{")) return { messages: [new AIMessage(`you said ${text}`)] };
    const args = JSON.parse(text) as Record<string, unknown>;
    return {
      messages: [
        new AIMessage({ content: "", tool_calls: [{ id: `c${messages.length}`, name: "schedule_followup", args }] }),
      ],
    };
  };
  return new StateGraph(MessagesAnnotation)
    .addNode("model", model)
    .addNode("tools", new ToolNode([scheduleFollowup]))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "model")
    .compile();
}

const promise = (mode: "remind" | "work", more: object = {}) =>
  JSON.stringify({ about: "the order", instruction: "Your order is on its way", mode, when: { in: "PT6S" }, ...more });

it("a reminder comes to the chat where it was asked for, and is part of the conversation", async () => {
  await withTelegram({ graphs: { agent: promising() } }, async ({ telegram, texts, ask, fireTimers, deps: { db } }) => {
    await telegram.says(promise("remind"), { chatId: 7 });
    const [promised = ""] = await texts(1, 7);
    expect(promised).toContain("firesAtLocal");
    await telegram.says("hello", { chatId: 8 });
    await texts(1, 8);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
    await fireTimers();
    expect((await texts(2, 7)).at(-1)).toBe("Your order is on its way");
    expect(telegram.messages(8)).toHaveLength(1);
    const { rows } = await db.query<{ thread_id: string }>("select thread_id from followups where status = 'produced'");
    expect(rows).toHaveLength(1);
    const { json } = await ask("GET", `/threads/${rows[0]?.thread_id}/state`);
    const { values, next } = json as { values: { messages: { content: string }[] }; next: string[] };
    expect(values.messages.at(-1)?.content).toBe("Your order is on its way");
    expect(next).toEqual([]);
  });
});

it("work runs beside the conversation, and its result comes after the turn that goes on", async () => {
  await withTelegram({ graphs: { agent: promising() } }, async ({ telegram, texts, fireTimers, deps: { db } }) => {
    await telegram.says(promise("work"), { chatId: 7 });
    await texts(1, 7);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
    await fireTimers();
    await until(
      "the work is done",
      async () => (await db.query("select 1 from timers where kind = 'followup.tell' and status = 'due'")).rows.length,
    );
    await fireTimers();
    expect((await texts(2, 7)).at(-1)).toBe("done (5 messages before)");
    await telegram.says("and now?", { chatId: 7 });
    expect((await texts(3, 7)).at(-1)).toBe("you said and now?");
  });
});
