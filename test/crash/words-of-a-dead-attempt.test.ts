// What a dead worker's attempt had said is told apart from what the next one says.
import { expect, test } from "vitest";
import { withCrashSite } from "./setup.js";

type Said = Readonly<{ id: string; content: string }>;
type Event = Readonly<{ id?: string; event: string; data: unknown }>;

/** What a client shows: words by their message, forgotten when another attempt begins, and the state when it comes. */
function shown(events: readonly Event[]): Said[] {
  let said: Said[] = [];
  for (const { event, data } of events) {
    if (event === "metadata") said = [];
    else if (event === "values") said = (data as { messages: Said[] }).messages.slice(1);
    else {
      const [{ id, content }] = data as [Said];
      const before = said.find((message) => message.id === id)?.content ?? "";
      said = [...said.filter((message) => message.id !== id), { id, content: before + content }];
    }
  }
  return said;
}

test("a worker is killed in the middle of an answer: who watches can tell the next attempt, and ends with its words, once", async () => {
  await withCrashSite(async (site) => {
    const worker = site.worker();
    const { thread_id } = await site.client.threads.create();
    const events: Event[] = [];
    let killed = false;
    for await (const part of site.client.runs.stream(thread_id, "talker", {
      input: { messages: [{ type: "human", content: "go" }] },
      streamMode: ["messages-tuple", "values"],
    })) {
      events.push(part);
      if (killed || shown(events)[0]?.content !== "a b c ") continue;
      killed = true;
      await worker.kill();
      site.worker();
      await site.expire(worker);
    }
    expect(killed).toBe(true);
    const attempts = events.filter(({ event }) => event === "metadata").map(({ data }) => data);
    expect(attempts).toMatchObject([{ attempt: 1 }, { attempt: 2 }]);
    const before = events.slice(0, events.indexOf(events.findLast(({ event }) => event === "metadata") as Event));
    expect(shown(before)).toMatchObject([{ content: "a b c " }]);

    const answer = shown(events);
    expect(answer).toMatchObject([{ content: "a b c d e f" }]);
    const words = events.slice(before.length).filter(({ event }) => event === "messages");
    expect(new Set(words.map(({ data }) => (data as [Said])[0].id))).toEqual(new Set([answer[0]?.id]));
    expect(events.at(-1)?.event).toBe("values");
    expect((await site.client.threads.getState<{ messages: Said[] }>(thread_id)).values.messages[1]).toMatchObject(
      answer[0] as Said,
    );

    const [run] = await site.client.runs.list(thread_id);
    const late: Event[] = [];
    const from = { lastEventId: "-1" };
    for await (const part of site.client.runs.joinStream(thread_id, run?.run_id ?? "", from)) late.push(part);
    expect(late.map(({ event, data }) => [event, data])).toEqual(events.map(({ event, data }) => [event, data]));
  });
});
