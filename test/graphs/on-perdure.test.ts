// The examples as a user runs them: on perdure, through the stock SDK client.
import type { Client, Message } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";
import { loadExample } from "./load.js";

type Messages = Readonly<{ messages: Message[] }>;
type Research = Readonly<{ findings: Record<string, object>; report?: string }>;

async function on(id: string, work: (client: Client, threadId: string) => Promise<void>): Promise<void> {
  await withEngine({ graphs: { [id]: await loadExample(id) } }, async ({ client }) => {
    const { thread_id } = await client.threads.create();
    await work(client, thread_id);
  });
}

test("support waits for a person, pays back once approved, and says so", async () => {
  await on("support", async (client, threadId) => {
    const content = "My order 1042 arrived broken, I want my money back.";
    await client.runs.wait(threadId, "support", { input: { messages: [{ role: "user", content }] } });
    expect(await client.threads.get(threadId)).toMatchObject({ status: "interrupted" });
    const { tasks } = await client.threads.getState(threadId);
    const [question] = tasks.flatMap((task) => task.interrupts);
    expect(question?.value).toMatchObject({ actionRequests: [{ name: "refund", args: { amount: "129.00 EUR" } }] });

    const command = { resume: { decisions: [{ type: "approve" }] } };
    const { messages } = (await client.runs.wait(threadId, "support", { command })) as Messages;
    expect(messages.filter((message) => message.type === "tool").map((message) => message.name)).toEqual([
      "look_up_order",
      "track_parcel",
      "refund",
    ]);
    expect(messages.at(-1)?.content).toBe("Done: 129.00 EUR are on their way back to you.");
    expect(await client.threads.get(threadId)).toMatchObject({ status: "idle" });
  });
});

test("research fails at a source without a year, and its fork from there succeeds", async () => {
  await on("research", async (client, threadId) => {
    const input = { question: "Why do otters hold hands, and what does folklore say?" };
    const run = await client.runs.create(threadId, "research", { input });
    await client.runs.join(threadId, run.run_id).catch(() => null);
    expect(await client.runs.get(threadId, run.run_id)).toMatchObject({ status: "error" });

    const [lastGood] = await client.threads.getHistory<Research>(threadId);
    expect(lastGood).toMatchObject({ next: ["check_sources"], tasks: [{ error: expect.stringContaining("no year") }] });
    const folklore = { ...lastGood!.values.findings.folklore, year: 1911 };
    const edited = await client.threads.updateState(threadId, {
      checkpoint: lastGood!.checkpoint,
      values: { findings: { folklore } },
      asNode: "investigate",
    });
    // The wire answers with the new checkpoint, whatever the SDK's type says.
    const { checkpoint } = edited as unknown as { checkpoint: { checkpoint_id: string } };
    const end = (await client.runs.wait(threadId, "research", {
      input: null,
      checkpointId: checkpoint.checkpoint_id,
    })) as Research;
    expect(end.report).toContain("(Tales of the Coast, 1911)");
  });
});

test("chat streams its tokens and remembers the conversation", async () => {
  await on("chat", async (client, threadId) => {
    const tokens: string[] = [];
    const say = (content: string) => ({ messages: [{ role: "user", content }] });
    const stream = client.runs.stream(threadId, "chat", { input: say("I am Ada"), streamMode: "messages-tuple" });
    for await (const { event, data } of stream) {
      if (event === "messages") tokens.push(String((data as unknown as [Message])[0].content));
    }
    expect(tokens.length).toBeGreaterThan(5);
    expect(tokens.join("")).toBe('You said "I am Ada". That was the first thing you told me.');

    const { messages } = (await client.runs.wait(threadId, "chat", { input: say("Who am I?") })) as Messages;
    expect(messages.at(-1)?.content).toBe('You said "Who am I?". Before that you told me "I am Ada".');
  });
});
