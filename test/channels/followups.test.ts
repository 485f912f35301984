// "I'll get back to you": promised in a turn, kept later, where it was asked.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { approve } from "../../src/engine/approve.js";
import { promisingAgent } from "../helpers/promising.js";
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
  return promisingAgent(model);
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

it("work that is cancelled while it runs says nothing, and neither does one whose run was cancelled", async () => {
  await withTelegram({ graphs: { agent: promising() } }, async ({ telegram, texts, ask, fireTimers, deps: { db } }) => {
    await telegram.says(promise("work"), { chatId: 7 });
    await texts(1, 7);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
    await fireTimers();
    const { rows } = await db.query<{ id: string }>("select followup_id as id from followups");
    const id = rows[0]?.id ?? "";
    await ask("POST", `/v1/followups/${id}/cancel`);
    await until("its run is over", async () => {
      await fireTimers();
      return (
        (await db.query("select 1 from runs where followup_id is not null and status in ('pending', 'running')")).rows
          .length === 0
      );
    });
    await fireTimers();
    expect(telegram.messages(7)).toHaveLength(1);
    expect((await ask("GET", `/v1/followups/${id}`)).json).toMatchObject({ status: "cancelled" });
  });
});

it("what was promised unless the person writes is dropped when they do", async () => {
  await withTelegram({ graphs: { agent: promising() } }, async ({ telegram, texts, ask, fireTimers, deps: { db } }) => {
    await telegram.says(promise("remind", { cancelIfPersonWrites: true }), { chatId: 7 });
    await texts(1, 7);
    await telegram.says("I'm here", { chatId: 7 });
    await texts(2, 7);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup' and status = 'due'");
    await fireTimers();
    expect((await ask("GET", "/v1/followups")).json).toMatchObject([
      { status: "cancelled", reason: "the person wrote" },
    ]);
  });
});

it("deleting the conversation's thread takes along what its follow-ups worked on", async () => {
  await withTelegram(
    { graphs: { agent: promising() } },
    async ({ telegram, texts, client, fireTimers, deps: { db } }) => {
      await telegram.says(promise("work"), { chatId: 7 });
      await texts(1, 7);
      await db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
      await fireTimers();
      await until("it is told", async () => {
        await fireTimers();
        return telegram.messages(7).length === 2;
      });
      const { rows } = await db.query<{ id: string }>("select thread_id as id from followups");
      await client.threads.delete(rows[0]?.id ?? "");
      await fireTimers();
      for (const table of ["threads", "runs", "followups", "conversations", "deliveries"]) {
        expect((await db.query(`select 1 from ${table}`)).rows).toEqual([]);
      }
    },
  );
});

it("a question that a follow-up's work asks comes to the chat, is decided there, and then the result comes", async () => {
  const asking = ({ messages }: { messages: BaseMessage[] }) => {
    const last = messages.at(-1);
    if (last?.additional_kwargs["followup"] !== true) return promise1({ messages });
    const { approved } = approve({ question: "Book it?" });
    return { messages: [new AIMessage(approved ? "booked" : "not booked")] };
  };
  const promise1 = ({ messages }: { messages: BaseMessage[] }) =>
    messages.at(-1)?.getType() === "tool"
      ? { messages: [new AIMessage("I will")] }
      : {
          messages: [
            new AIMessage({
              content: "",
              tool_calls: [{ id: "c1", name: "schedule_followup", args: JSON.parse(promise("work")) }],
            }),
          ],
        };
  const agent = promisingAgent(asking);
  await withTelegram({ graphs: { agent } }, async ({ telegram, texts, fireTimers, deps: { db } }) => {
    await telegram.says("book it later", { chatId: 7 });
    await texts(1, 7);
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
    await fireTimers();
    await texts(2, 7);
    expect(
      telegram
        .messages(7)
        .at(-1)
        ?.buttons.map(({ text }) => text),
    ).toEqual(["Approve", "Reject"]);
    await telegram.presses("Approve", { chatId: 7 });
    await until("it is told", async () => {
      await fireTimers();
      return telegram.messages(7).length === 3;
    });
    expect(telegram.messages(7).at(-1)?.text).toBe("booked");
  });
});
