// Outreach: schedules write to the people of their audience, in the conversation each has, and not to those who don't want it.
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { letTimePass } from "../helpers/deliveries.js";
import { type Scheduled, withSchedules } from "../helpers/schedules.js";
import { until } from "../helpers/wait.js";

/** The next time that it is this hour in UTC, and so many days later. */
const next = async ({ now }: Scheduled, hour: number, days = 0): Promise<Date> => {
  const at = await now();
  at.setUTCHours(hour, 0, 0, 0);
  return new Date(at.getTime() + (at <= (await now()) ? days + 1 : days) * 86_400_000);
};

it("writes to each of its audience once at its time, and says why others get nothing", async () => {
  await withSchedules({}, async (t) => {
    await t.person("ana", 1, { attributes: { name: "Ana" } });
    await t.person("bob", 2);
    await t.person("cleo", 3, { attributes: { name: "Cleo" } });
    await t.telegram.says(" Stop! ", { chatId: 3 });
    await t.texts(2, 3);
    await t.ask("POST", "/v1/contacts", { key: "dan", attributes: { name: "Dan" } });
    const scheduleId = await t.schedule({
      name: "news",
      when: { cron: "0 9 * * *" },
      instruction: "Good morning {{name}}",
    });
    await t.at(await next(t, 9));
    expect((await t.texts(2, 1)).at(-1)).toBe("Good morning Ana");
    const found = await t.occurrences(scheduleId);
    expect(found.map(({ status, reason }) => [status, reason]).sort()).toEqual([
      ["produced", null],
      ["skipped", "no conversation"],
      ["skipped", "no value for name"],
      ["skipped", "suppressed"],
    ]);
    // The next day, and nobody twice for the same one.
    await t.at(await next(t, 9));
    expect((await t.texts(3, 1)).at(-1)).toBe("Good morning Ana");
    expect([2, 3].map((chatId) => t.telegram.messages(chatId).length)).toEqual([1, 2]);
    const { json } = await t.ask("GET", `/v1/schedules/${scheduleId}/firings`);
    expect(json).toMatchObject([
      { status: "fired", made: 1, skipped: 3 },
      { status: "fired", made: 1, skipped: 3 },
    ]);
    // What was said is part of the conversation.
    const [{ thread_id: threadId }] = found.filter(({ status }) => status === "produced") as [{ thread_id: string }];
    const state = (await t.ask("GET", `/threads/${threadId}/state`)).json as {
      values: { messages: { content: string }[] };
    };
    expect(state.values.messages.at(-1)?.content).toBe("Good morning Ana");
    // Who takes it back is written to again.
    await t.telegram.says("/start", { chatId: 3 });
    await t.texts(3, 3);
    await t.at(await next(t, 9));
    expect((await t.texts(4, 3)).at(-1)).toBe("Good morning Cleo");
  });
});

it("work runs the graph for each of them, at the least priority", async () => {
  await withSchedules({}, async (t) => {
    await t.person("ana", 1, { attributes: { name: "Ana" } });
    await t.schedule({ when: { cron: "0 9 * * *" }, mode: "work", instruction: "look after {{name}}" });
    await t.at(await next(t, 9));
    expect((await t.texts(2, 1)).at(-1)).toContain("look after Ana");
    const { rows } = await t.deps.db.query("select distinct priority from runs where followup_id is not null");
    expect(rows).toEqual([{ priority: 3 }]);
  });
});

it("marketing goes to who agreed to it, as long as they do", async () => {
  await withSchedules({ deliverers: 0 }, async (t) => {
    // Nobody answers yet: what is to go out waits in the outbox.
    const deliverer = t.startDeliverer();
    const ana = await t.person("ana", 1, { opt_in: { source: "form of 1 March" } });
    await t.person("bob", 2);
    await deliverer.stop();
    const offers = { when: { cron: "0 9 * * *" }, purpose: "marketing", instruction: "An offer" };
    const scheduleId = await t.schedule(offers);
    await t.at(await next(t, 9));
    expect((await t.occurrences(scheduleId)).map(({ reason }) => reason).sort()).toEqual(
      ["no opt-in to marketing", null].sort(),
    );
    await t.ask("POST", "/v1/suppressions", { contact_key: "ana", scope: "marketing" });
    t.startDeliverer();
    const outreach = async () =>
      (
        (await t.ask("GET", "/v1/deliveries")).json as { source_kind: string; status: string; error_code: string }[]
      ).filter(({ source_kind: kind }) => kind === "outreach");
    await until(
      "it is judged once more",
      async () => (await outreach())[0]?.status !== "pending" && (await outreach())[0]?.status !== "sending",
    );
    expect(await outreach()).toMatchObject([{ status: "suppressed", error_code: "suppressed" }]);
    expect(t.telegram.messages(1)).toHaveLength(1);
    // What is no marketing still comes.
    await t.schedule({ when: { cron: "0 10 * * *" }, audience: { contacts: [ana] }, instruction: "Your bill" });
    await t.at(await next(t, 10));
    expect((await t.texts(2, 1)).at(-1)).toBe("Your bill");
  });
});

it("quiet hours hold it back until they end on the recipient's wall, before and in the outbox, and never until it is too late", async () => {
  await withSchedules({ deliverers: 0 }, async (t) => {
    const deliverer = t.startDeliverer();
    await t.person("ana", 1, { time_zone: "Asia/Tokyo" });
    await t.person("bob", 2);
    await deliverer.stop();
    const quiet_hours = { from: "21:00", to: "08:00" };
    // 13:00 in UTC is 22:00 in Tokyo.
    const night = await t.schedule({ when: { cron: "0 13 * * *" }, quiet_hours, instruction: "a" });
    const short = await t.schedule({
      when: { cron: "0 13 * * *" },
      quiet_hours,
      expires_after: "PT1H",
      instruction: "b",
    });
    const evening = await next(t, 13);
    await t.at(evening);
    const [ana] = (await t.occurrences(night)).filter(({ status }) => status === "pending");
    expect(ana).toMatchObject({ reason: "after quiet hours" });
    expect(new Date(String(ana?.fire_at)).getTime() - evening.getTime()).toBe(10 * 3_600_000);
    expect((await t.occurrences(short)).map(({ status, reason }) => `${status} ${reason}`).sort()).toEqual([
      "expired it was too late",
      "produced null",
    ]);
    // Bob's two have been in the outbox since; the quiet hours of his wall have begun when somebody looks.
    await t.at(new Date(evening.getTime() + 8.5 * 3_600_000));
    t.startDeliverer();
    const bobs = async () =>
      (
        await t.deps.db.query<{ status: string; error_code: string | null }>(
          "select status, error_code from deliveries where source_kind = 'outreach' order by seq",
        )
      ).rows;
    await until("they are judged", async () => (await bobs()).every(({ error_code: code }) => code !== null));
    expect(await bobs()).toEqual(
      expect.arrayContaining([
        { status: "parked", error_code: "quiet_hours" },
        { status: "expired", error_code: expect.any(String) as string },
      ]),
    );
    expect(t.telegram.messages(2)).toHaveLength(1);
    // Who writes at this hour is answered.
    await t.telegram.says("still awake", { chatId: 2 });
    expect(await t.texts(2, 2)).toEqual(["you said hello", "you said still awake"]);
    await t.at(new Date(evening.getTime() + 10 * 3_600_000));
    expect(await t.texts(2, 1)).toContain("a");
    await t.at(new Date(evening.getTime() + 19.1 * 3_600_000));
    expect((await t.texts(3, 2)).at(-1)).toBe("a");
  });
});

it("one person gets no more than three of them in a day, whatever schedules there are", async () => {
  await withSchedules({}, async (t) => {
    await t.person("ana", 1);
    const ids = [];
    for (const n of [1, 2, 3, 4])
      ids.push(await t.schedule({ when: { cron: `${n} 9 * * *` }, instruction: `number ${n}` }));
    await t.at(new Date((await next(t, 9)).getTime() + 5 * 60_000));
    await t.texts(4, 1);
    const statuses = (await Promise.all(ids.map((id) => t.occurrences(id))))
      .flat()
      .map(({ status, reason }) => `${status} ${reason}`);
    expect(statuses.sort()).toEqual([
      ...Array<string>(3).fill("produced null"),
      "skipped 3 messages went to this person within a day",
    ]);
  });
});

it("so many days before a date that each has, which may change; once for each date", async () => {
  await withSchedules({}, async (t) => {
    const day = async (days: number) => new Date((await next(t, 9, days)).getTime()).toISOString().slice(0, 10);
    const end = await day(30);
    const ana = await t.person("ana", 1, { attributes: { end } });
    await t.person("bob", 2, { attributes: { end: "next year" } });
    const when = { days_before: [30, 7], attribute: "end", at: "09:00" };
    const scheduleId = await t.schedule({ when, instruction: "{{days_before}} days to {{end}}" });
    await t.at(await next(t, 9));
    expect((await t.texts(2, 1)).at(-1)).toBe(`30 days to ${end}`);
    // Put off by a day: the day that was over comes again, for another date.
    await t.ask("POST", "/v1/contacts", { key: "ana", attributes: { end: await day(30) } });
    await t.at(await next(t, 9));
    expect(await t.texts(3, 1)).toHaveLength(3);
    await t.ask("POST", `/v1/schedules/${scheduleId}/run`);
    await t.settle();
    expect(t.telegram.messages(1)).toHaveLength(3);
    const found = await t.occurrences(scheduleId);
    expect(found.map(({ recipient }) => recipient)).toEqual([ana, ana]);
    expect(found.map(({ occurrence }) => occurrence)).toContain(`30 days before ${end}`);
  });
});

it("a block and a word are heeded wherever the person is reached", async () => {
  await withSchedules({}, async (t) => {
    await t.person("ana", 1);
    const conversation_ids = [await t.conversationOf(1)];
    await t.person("ana", 2);
    conversation_ids.push(await t.conversationOf(2));
    await t.ask("POST", "/v1/contacts", { key: "ana", conversation_ids });
    const blocked = { chat: { id: 2 }, new_chat_member: { status: "kicked" } };
    await t.telegram.push({ update_id: 90_000, my_chat_member: blocked });
    await until("it is known", async () => ((await t.ask("GET", "/v1/suppressions")).json as unknown[]).length === 2);
    expect((await t.ask("GET", "/v1/suppressions?contact_key=ana")).json).toMatchObject([
      { scope: "all", cause: "blocked" },
    ]);
    const scheduleId = await t.schedule({ when: { cron: "0 9 * * *" }, instruction: "news" });
    await t.at(await next(t, 9));
    expect(await t.occurrences(scheduleId)).toMatchObject([{ status: "skipped", reason: "suppressed" }]);
  });
});

it("a thread that is busy: what is due waits behind the turn, and the next is queued or passed over with the reason, as the API says", async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const agent = new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => {
      const text = messages.at(-1)?.text ?? "";
      if (text === "hold") await held;
      return { messages: [new AIMessage(`you said ${text}`)] };
    })
    .addEdge(START, "model")
    .addEdge("model", END)
    .compile();
  // Longer than the clock is moved by while the turn goes on.
  await withSchedules({ graphs: { agent }, leaseMs: 7_200_000 }, async (t) => {
    await t.person("ana", 1);
    const when = { cron: "*/15 * * * *" };
    const passing = await t.schedule({ when, instruction: "passing", overlap: "skip" });
    const queuing = await t.schedule({ when, instruction: "queuing", overlap: "queue" });
    await t.telegram.says("hold", { chatId: 1 });
    await until("the turn goes on", async () => (await t.client.threads.search({ status: "busy" })).length === 1);
    const firings = async (id: string) => (await t.ask("GET", `/v1/schedules/${id}/firings`)).json as object[];
    for (const times of [1, 2]) {
      const quarterMs = 15 * 60_000;
      await t.advance(quarterMs - ((await t.now()).getTime() % quarterMs) + 10);
      await until("both have fired", async () => {
        await t.fireTimers();
        const found = [...(await firings(passing)), ...(await firings(queuing))];
        const waiting = (await t.ask("GET", "/v1/followups?status=pending")).json as object[];
        return found.length === 2 * times && waiting.length === 0;
      });
    }
    const waits = { status: "running", reason: null, tell_run_id: expect.any(String) as string };
    expect(await t.occurrences(passing)).toMatchObject([
      { status: "skipped", reason: "the one before isn't over", tell_run_id: null },
      waits,
    ]);
    expect(await firings(passing)).toMatchObject([
      { status: "fired", made: 0, skipped: 1 },
      { status: "fired", made: 1, skipped: 0 },
    ]);
    const queued = await t.occurrences(queuing);
    expect(queued).toMatchObject([waits, waits]);
    for (const { thread_id, tell_run_id } of queued) {
      const path = `/threads/${String(thread_id)}/runs/${String(tell_run_id)}`;
      expect((await t.ask("GET", path)).json).toMatchObject({ status: "pending" });
    }
    release();
    await until("all are told", async () =>
      (await t.occurrences(queuing)).every(({ status }) => status === "produced"),
    );
    await letTimePass(t.deps.db, 10_000);
    const texts = t.telegram.messages(1).map(({ text }) => text);
    expect(texts.slice(0, 2)).toEqual(["you said hello", "you said hold"]);
    expect(texts.slice(2, 4).sort()).toEqual(["passing", "queuing"]);
    expect(texts.slice(4)).toEqual(["queuing"]);
  });
});
