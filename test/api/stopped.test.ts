// What a person has seen when they press stop, and what is there afterwards.
import { createAgent, tool } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import { withEngine } from "../helpers/engine.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const pay = tool(() => "paid", { name: "pay", description: "Pays", schema: z.object({ to: z.string() }) });
const agent = createAgent({
  model: new StreamingModel((messages) => {
    if (messages.at(-1)?.text !== "pay") return { text: "no sooner said than done" };
    return { text: "I shall pay ann now ", calls: [{ id: "call_1", name: "pay", args: { to: "ann" } }] };
  }, 100),
  tools: [pay],
});

type Said = Readonly<{ type: string; content: string; tool_calls?: unknown[] }>;
type Event = Readonly<{ event: string; data: unknown }>;
const say = (content: string) => ({ messages: [{ type: "human", content }] });
const told = ({ type, content }: Said) => [type, content];

test("in the middle of an answer: the question stays, the half answer is told to be gone, and the next message is answered", async () => {
  await withEngine({ graphs: { agent } }, async ({ client }) => {
    const { thread_id } = await client.threads.create();
    const events: Event[] = [];
    const run = { id: "" };
    for await (const part of client.runs.stream(thread_id, "agent", {
      input: say("pay"),
      streamMode: ["messages-tuple", "values"],
      onRunCreated: ({ run_id }) => void (run.id = run_id),
    })) {
      events.push(part);
      const words = events.filter(({ event }) => event === "messages").length;
      if (words === 3 && part.event === "messages") await client.runs.cancel(thread_id, run.id);
    }
    expect(events.at(-1)).toMatchObject({
      event: "metadata",
      data: { run_id: run.id, attempt: 1, cancel_reason: "cancelled by a client" },
    });
    const states = events.filter(({ event }) => event === "values");
    const { messages: last } = states.at(-1)?.data as { messages: Said[] };
    expect(last.map(told)).toEqual([["human", "pay"]]);

    // What a page that is loaded again asks for, and who comes back to the stream.
    const [head] = await client.threads.getHistory<{ messages: Said[] }>(thread_id, { limit: 10 });
    expect(head?.values.messages).toEqual(last);
    const late: Event[] = [];
    const from = { lastEventId: "-1" };
    for await (const part of client.runs.joinStream(thread_id, run.id, from)) late.push(part);
    expect(late).toEqual(events);

    const after = (await client.runs.wait(thread_id, "agent", { input: say("thanks") })) as { messages: Said[] };
    expect(after.messages.map(told)).toEqual([
      ["human", "pay"],
      ["human", "thanks"],
      ["ai", "no sooner said than done"],
    ]);
  });
});
