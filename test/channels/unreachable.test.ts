// Who can't be reached: what was promised to them waits until they write, and no model is paid for it meanwhile.
import { AIMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { promisingAgent } from "../helpers/promising.js";
import { type Reached, withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

type Row = Readonly<Record<string, unknown>>;

/** Promises what it is told as JSON, and counts how often it was asked to work for it. */
function agent() {
  const worked: string[] = [];
  const graph = promisingAgent(({ messages }) => {
    const last = messages.at(-1);
    const text = last?.text ?? "";
    if (last?.additional_kwargs["followup"] === true) {
      worked.push(text);
      return { messages: [new AIMessage("it has been sent")] };
    }
    if (last?.getType() === "tool") return { messages: [new AIMessage("promised")] };
    if (!text.startsWith("{")) return { messages: [new AIMessage(`you said ${text}`)] };
    const call = {
      id: `c${messages.length}`,
      name: "schedule_followup",
      args: JSON.parse(text) as Record<string, unknown>,
    };
    return { messages: [new AIMessage({ content: "", tool_calls: [call] })] };
  });
  return { graph, worked };
}

const promise = (more: object) =>
  JSON.stringify({ about: "the order", instruction: "Check it", when: { in: "PT6S" }, ...more });

async function fireWhatIsDue({ deps: { db }, fireTimers }: Reached): Promise<void> {
  await db.query(
    "update timers set due_at = least(due_at, clock_timestamp()) where kind = 'followup' and status = 'due'",
  );
  await fireTimers();
}

const followups = async ({ ask }: Reached) => (await ask("GET", "/v1/followups")).json as readonly Row[];

/** The person has blocked the bot, as an answer that is refused tells. */
async function blocks(engine: Reached): Promise<void> {
  engine.telegram.fails("blocked");
  await engine.telegram.says("are you there?", { chatId: 7 });
  await until("the block is noticed", async () => {
    const [conversation] = (await engine.ask("GET", "/v1/conversations")).json as readonly Row[];
    return conversation?.["unreachable_code"] !== null;
  });
}

it.each(["work", "remind"] as const)(
  "a follow-up (%s) for who can't be reached waits until they write, and comes once",
  async (mode) => {
    const { graph, worked } = agent();
    await withTelegram({ graphs: { agent: graph } }, async (engine) => {
      const { telegram, texts, deps } = engine;
      await telegram.says(promise({ mode }), { chatId: 7 });
      await texts(1, 7);
      await blocks(engine);
      await fireWhatIsDue(engine);
      const [parked] = await followups(engine);
      expect(parked).toMatchObject({ status: "parked", run_id: null, tell_run_id: null });
      expect(String(parked?.["reason"])).not.toBe("");
      const { rows } = await deps.db.query("select payload from events where type = 'followup.parked'");
      expect(rows).toMatchObject([{ payload: { followup_id: parked?.["followup_id"], code: parked?.["reason"] } }]);
      expect(worked).toEqual([]);
      // Nothing is due: it isn't looked at again and again.
      const due = await deps.db.query("select 1 from timers where kind = 'followup' and status = 'due'");
      expect(due.rows).toEqual([]);

      await telegram.says("hello again", { chatId: 7 });
      const answer = mode === "work" ? "it has been sent" : "Check it";
      await until("it is told", async () => {
        await engine.fireTimers();
        return telegram.messages(7).some(({ text }) => text === answer);
      });
      expect(telegram.messages(7).map(({ text }) => text)).toEqual(["promised", "you said hello again", answer]);
      await until("it is produced", async () => (await followups(engine))[0]?.["status"] === "produced");
      expect(worked).toHaveLength(mode === "work" ? 1 : 0);
    });
  },
);

it("one that waits too long expires, and one that waits can be taken back or put off", async () => {
  const { graph } = agent();
  await withTelegram({ graphs: { agent: graph } }, async (engine) => {
    const { telegram, texts, deps, ask } = engine;
    const asked = [promise({ notAfter: "PT1H" }), promise({ about: "the bill" }), promise({ about: "the shop" })];
    for (const [n, text] of asked.entries()) {
      await telegram.says(text.replace("{", '{"mode":"remind",'), { chatId: 7 });
      await texts(n + 1, 7);
    }
    await blocks(engine);
    await fireWhatIsDue(engine);
    const [shop, bill, order] = await followups(engine);
    expect([shop, bill, order].map((each) => each?.["status"])).toEqual(["parked", "parked", "parked"]);

    await ask("POST", `/v1/followups/${String(bill?.["followup_id"])}/cancel`);
    const later = await ask("POST", `/v1/followups/${String(shop?.["followup_id"])}/reschedule`, {
      when: { in: "P2D" },
    });
    expect(later).toMatchObject({ status: 200, json: { status: "pending", reason: null } });
    await deps.db.query(
      "update followups set not_after = clock_timestamp() - interval '1 s' where not_after is not null",
    );
    await fireWhatIsDue(engine);
    expect((await followups(engine)).map((each) => each["status"])).toEqual(["parked", "cancelled", "expired"]);
  });
});
