// A promise that comes to nothing: the log of the run that made it says so, and the person is told where the account has words for that.
import { AIMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { promisingAgent } from "../helpers/promising.js";
import { type Reached, withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

/** Promises what it is told, as JSON; can't do what it promised. */
const graph = promisingAgent(({ messages }) => {
  const last = messages.at(-1);
  if (last?.additional_kwargs["followup"] === true) throw new TypeError("the check is broken");
  if (last?.getType() === "tool") return { messages: [new AIMessage("promised")] };
  const args = JSON.parse(last?.text ?? "{}") as Record<string, unknown>;
  return { messages: [new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "schedule_followup", args }] })] };
});

const promise = (more: object) =>
  JSON.stringify({ about: "the order", instruction: "Check it", mode: "work", when: { in: "PT6S" }, ...more });
const options = { graphs: { agent: graph }, policies: { agent: { maxAttempts: 1 } } };
const settings = { failure_text: "I could not look after {{about}}. Please ask again." };

/** Until what was promised is as it says. */
async function comesTo({ ask, deps: { db }, fireTimers }: Reached, status: string): Promise<string> {
  await until(`the follow-up is ${status}`, async () => {
    await db.query("update timers set due_at = clock_timestamp() where kind like 'followup%' and status = 'due'");
    await fireTimers();
    return ((await ask("GET", "/v1/followups")).json as { status: string }[])[0]?.status === status;
  });
  const [{ origin_run_id: runId } = { origin_run_id: "" }] = (await ask("GET", "/v1/followups")).json as {
    origin_run_id: string;
  }[];
  await until("it is told", async () => {
    await fireTimers();
    return (await failures(db, runId)).length === 1;
  });
  return runId;
}

async function failures(db: Reached["deps"]["db"], runId: string) {
  const { rows } = await db.query("select payload from events where run_id = $1 and type = 'followup.failed'", [runId]);
  return rows;
}

it("work that fails for good is told once, to the log and to the person", async () => {
  await withTelegram({ ...options, settings }, async (engine) => {
    const { telegram, texts, fireTimers, deps } = engine;
    await telegram.says(promise({}), { chatId: 7 });
    await texts(1, 7);
    const runId = await comesTo(engine, "dead");
    expect(await failures(deps.db, runId)).toMatchObject([{ payload: { status: "dead", reason: "graph_error" } }]);
    expect(await texts(2, 7)).toEqual(["promised", "I could not look after the order. Please ask again."]);
    await fireTimers();
    expect(await failures(deps.db, runId)).toHaveLength(1);
  });
});

it("so is one that comes too late; an account without words for it says nothing", async () => {
  await withTelegram(options, async (engine) => {
    const { telegram, texts, deps } = engine;
    await telegram.says(promise({ notAfter: "PT1S" }), { chatId: 7 });
    await texts(1, 7);
    await deps.db.query("update followups set not_after = clock_timestamp() - interval '1 s'");
    const runId = await comesTo(engine, "expired");
    expect(await failures(deps.db, runId)).toMatchObject([
      { payload: { status: "expired", reason: "it was too late" } },
    ]);
    expect(telegram.messages()).toHaveLength(1);
  });
});

it("without a chat, what comes of it is told where the run that promised it was to tell of its end", async () => {
  await withTelegram({ ...options, webhookPrivate: true }, async ({ client, ask, fireTimers, deps: { db } }) => {
    const { thread_id: id } = await client.threads.create();
    const webhook = "http://127.0.0.1:9/ended";
    await client.runs.wait(id, "agent", {
      input: { messages: [{ role: "user", content: promise({ mode: "remind" }) }] },
      webhook,
    });
    await db.query("update timers set due_at = clock_timestamp() where kind = 'followup' and status = 'due'");
    await fireTimers();
    const [{ tell_run_id: told } = { tell_run_id: "" }] = (await ask("GET", `/v1/followups?thread_id=${id}`)).json as {
      tell_run_id: string;
    }[];
    const { rows } = await db.query("select webhook from runs where run_id = $1", [told]);
    expect(rows).toEqual([{ webhook }]);
  });
});
