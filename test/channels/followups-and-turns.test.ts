// Follow-ups and turns of one conversation: what was promised in a turn never overtakes it, and what takes long holds up nobody.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { promisingAgent } from "../helpers/promising.js";
import { type Reached, withTelegram } from "../helpers/telegram.js";
import { door } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

/** Promises on "check"; what is done after a promise and for a follow-up waits for a door each. */
function slow() {
  const [turn, check] = [door(), door()];
  let checking = false;
  const model = async ({ messages }: { messages: BaseMessage[] }) => {
    const last = messages.at(-1);
    if (last?.getType() === "tool") {
      await turn.opened;
      return { messages: [new AIMessage("I'll look into it")] };
    }
    if (last?.additional_kwargs["followup"] === true) {
      checking = true;
      await check.opened;
      return { messages: [new AIMessage("it is all right")] };
    }
    if (last?.text !== "check") return { messages: [new AIMessage(`you said ${last?.text}`)] };
    const args = { about: "it", instruction: "check it", mode: "work", when: { in: "PT6S" } };
    return { messages: [new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "schedule_followup", args }] })] };
  };
  const graph = promisingAgent(model);
  return { graph, endTurn: turn.open, endCheck: check.open, isChecking: () => checking };
}

const isScheduled = async ({ deps: { db } }: Reached) => (await db.query("select 1 from followups")).rows.length === 1;

/** Its time has come. */
async function comesDue({ deps: { db }, fireTimers }: Reached): Promise<void> {
  await db.query("update timers set due_at = clock_timestamp() where kind like 'followup%' and status = 'due'");
  await fireTimers();
}

it("what is due before its turn has ended comes after the turn's reply", async () => {
  const { graph, endTurn, endCheck } = slow();
  endCheck();
  await withTelegram({ graphs: { agent: graph } }, async (engine) => {
    const { telegram, texts } = engine;
    await telegram.says("check", { chatId: 7 });
    await until("the promise", () => isScheduled(engine));
    await comesDue(engine);
    await comesDue(engine);
    expect(telegram.messages(7)).toEqual([]);
    endTurn();
    expect(await texts(1, 7)).toEqual(["I'll look into it"]);
    await until("the result", async () => {
      await comesDue(engine);
      return telegram.messages(7).length === 2;
    });
    expect(await texts(2, 7)).toEqual(["I'll look into it", "it is all right"]);
  });
});

it("while a check takes its time the customer is answered, and the result comes after that", async () => {
  const { graph, endTurn, endCheck, isChecking } = slow();
  endTurn();
  await withTelegram({ graphs: { agent: graph }, concurrency: 2 }, async (engine) => {
    const { telegram, texts } = engine;
    await telegram.says("check", { chatId: 7 });
    await texts(1, 7);
    await until("the check", async () => {
      await comesDue(engine);
      return isChecking();
    });
    for (const [n, text] of ["hello?", "still there?"].entries()) {
      await telegram.says(text, { chatId: 7 });
      expect((await texts(n + 2, 7)).at(-1)).toBe(`you said ${text}`);
    }
    endCheck();
    await until("the result", async () => {
      await comesDue(engine);
      return telegram.messages(7).length === 4;
    });
    expect((await texts(4, 7)).at(-1)).toBe("it is all right");
    // It is part of the conversation that went on meanwhile.
    await telegram.says("thanks", { chatId: 7 });
    expect((await texts(5, 7)).at(-1)).toBe("you said thanks");
  });
});
