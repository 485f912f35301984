// What may not have reached the person, and what an agent didn't say: both are told to who should know.
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { withTelegram } from "../helpers/telegram.js";
import { until } from "../helpers/wait.js";

/** Says nothing when it is asked to. */
const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => {
    const asked = messages.at(-1)?.text ?? "";
    return { messages: [new AIMessage(asked === "quiet" ? "" : `you said ${asked}`)] };
  })
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

type Row = Readonly<Record<string, unknown>>;

it("an answer that may not have arrived is said to the agent with the next message, once", async () => {
  await withTelegram({ graphs: { agent } }, async ({ telegram, ask, client }) => {
    telegram.breaks({ fault: "cut_before", times: 1, if: ({ path }) => path.includes("/send") });
    await telegram.says("one");
    const deliveries = async () => (await ask("GET", "/v1/deliveries")).json as readonly Row[];
    await until("nobody knows of the first", async () => (await deliveries())[0]?.["status"] === "unknown");
    await telegram.says("two");
    await until("the second is answered", () => telegram.messages().length === 1);
    await telegram.says("three");
    await until("the third is answered", () => telegram.messages().length === 2);

    const [thread] = await client.threads.search();
    const state = await client.threads.getState<{ messages: { type: string; content: string; id: string }[] }>(
      thread?.thread_id ?? "",
    );
    const said = state.values.messages.map(({ type, content }) => `${type}: ${content}`);
    expect(said).toEqual([
      ...["human: one", "ai: you said one"],
      expect.stringMatching(
        /^human: \[A note from the system, not from the person: your message of .* UTC may not have reached the person\.\]$/,
      ),
      ...["human: two", "ai: you said two", "human: three", "ai: you said three"],
    ]);
    const runId = String((await deliveries()).at(-1)?.["run_id"]);
    const log = (await ask("GET", `/v1/runs/${runId}/events`)).json;
    expect(JSON.stringify(log)).toContain("delivery.unknown");
  });
});

it("an empty answer is seen as one, and a part that is refused makes the whole partial", async () => {
  await withTelegram({ graphs: { agent } }, async ({ telegram, ask }) => {
    await telegram.says("quiet");
    const deliveries = async () => (await ask("GET", "/v1/deliveries")).json as readonly Row[];
    await until("it is there", async () => (await deliveries()).length === 1);
    expect(await deliveries()).toMatchObject([
      { status: "suppressed", error_code: "empty_reply", source_kind: "reply" },
    ]);

    const refused = { ok: false, error_code: 400, description: "Bad Request: message is too long" };
    const isSecond = ({ body }: Readonly<{ body: Row }>) => JSON.stringify(body).includes("second");
    telegram.breaks({ fault: { status: 400, body: refused }, if: isSecond });
    await telegram.says(`first ${"a".repeat(4_000)}\n\nsecond ${"b".repeat(4_000)}\n\nthird ${"c".repeat(4_000)}`);
    await until("all parts are settled", async () => {
      const [one, two, three] = await deliveries();
      return [one, two, three].every((part) => ["sent", "failed"].includes(String(part?.["status"])));
    });
    const parts = (await deliveries()).slice(0, 3).toReversed();
    expect(parts.map(({ part, status, partial }) => [part, status, partial])).toEqual([
      [0, "sent", true],
      [1, "failed", true],
      [2, "sent", true],
    ]);
    expect(parts[0]?.["provider_message_id"]).toMatch(/^1\//);
  });
});
