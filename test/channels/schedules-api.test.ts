// What people and programs say to schedules: made, changed, paused, run and looked at; and what can't be meant.
import { describe, expect, it } from "vitest";
import { type Scheduled, withSchedules } from "../helpers/schedules.js";

const NOBODY = "00000000-0000-4000-8000-000000000000";
const DAILY = { when: { cron: "0 9 * * *" }, instruction: "news" };
const BODY = { name: "news", about: "news", mode: "remind", time_zone: "UTC", audience: { where: [] }, ...DAILY };
type Json = Record<string, unknown>;

it("what can't be meant is refused by its place, and nothing is made", async () => {
  await withSchedules({ deliverers: 0, workers: 0 }, async ({ ask }) => {
    const refused: readonly (readonly [object, RegExp])[] = [
      [{ time_zone: "Mars/Olympus" }, /time zone/],
      [{ when: { cron: "0 0 30 2 *" } }, /never comes/],
      [{ when: { cron: "*/5 * * * *" } }, /more often than every 15 minutes/],
      [{ when: { cron: "0 0 9 * * *" } }, /five parts/],
      [{ when: { at: "2020-01-01T09:00:00" } }, /is over/],
      [{ when: { days_before: [30], attribute: "end", at: "25:00" } }, /when/],
      [{ instruction: "Hello {{first name}}" }, /no variable/],
      [{ audience: { contacts: [NOBODY] } }, /there is no 00000000/],
      [{ audience: { where: [{ attribute: "plan", op: "in", value: "pro" }] } }, /audience/],
      [{ audience: { where: [], channel_account_id: NOBODY } }, /there is no/],
      [{ quiet_hours: { from: "9pm", to: "08:00" } }, /quiet_hours/],
      [{ jitter: "15 minutes" }, /jitter/],
      [{ ends_at: "2020-01-01T00:00:00Z" }, /never comes/],
    ];
    for (const [change, said] of refused) {
      const { status, json } = await ask("POST", "/v1/schedules", { ...BODY, ...change });
      expect([status, (json as { detail: string }).detail]).toEqual([422, expect.stringMatching(said)]);
    }
    expect((await ask("GET", "/v1/schedules")).json).toEqual([]);
    expect((await ask("POST", "/v1/contacts", { key: "ana", time_zone: "Mars/Olympus" })).status).toBe(422);
    expect((await ask("POST", "/v1/contacts", { key: "ana", conversation_ids: [NOBODY] })).status).toBe(422);
    expect((await ask("GET", "/v1/contacts")).json).toEqual([]);
    expect((await ask("POST", "/v1/suppressions", { scope: "all" })).status).toBe(422);
    for (const path of [`/v1/schedules/${NOBODY}`, `/v1/contacts/${NOBODY}`])
      expect((await ask("GET", path)).status).toBe(404);
    expect((await ask("DELETE", `/v1/suppressions/${NOBODY}`)).status).toBe(404);
  });
});

it("a request to make a schedule, or to backfill one, that comes again makes nothing new", async () => {
  await withSchedules({ deliverers: 0, workers: 0 }, async ({ url, ask }) => {
    const post = async (path: string, key: string, body: object) => {
      const headers = { "content-type": "application/json", "idempotency-key": key };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      const text = await response.text();
      const id = response.ok ? (JSON.parse(text) as { schedule_id: string }).schedule_id : text;
      return { status: response.status, id, replayed: response.headers.get("idempotent-replayed") };
    };
    const made = await post("/v1/schedules", "k", BODY);
    expect(await post("/v1/schedules", "k", BODY)).toEqual({ status: 200, id: made.id, replayed: "true" });
    expect([made.status, made.replayed]).toEqual([201, null]);
    expect((await post("/v1/schedules", "k", { ...BODY, name: "other" })).status).toBe(409);
    expect((await ask("GET", "/v1/schedules")).json).toHaveLength(1);
    const now = Date.now();
    const stretch = { from: new Date(now - 3 * 86_400_000).toISOString(), to: new Date(now).toISOString() };
    const backfill = () => post(`/v1/schedules/${made.id}/backfill`, "b", stretch);
    expect((await backfill()).status).toBe(202);
    expect(await backfill()).toMatchObject({ status: 200, replayed: "true" });
  });
});

it("a contact keeps what isn't changed, loses what is null, and a conversation is of one", async () => {
  await withSchedules({}, async ({ ask, person, conversationOf }) => {
    const attributes = { plan: "pro", seats: 5, end: "2027-05-01" };
    const id = await person("ana", 1, { attributes, opt_in: { source: "form" }, locale: "it" });
    const changed = (await ask("POST", "/v1/contacts", { key: "ana", attributes: { plan: null, seats: 6 } }))
      .json as Json;
    expect(changed).toMatchObject({
      contact_id: id,
      version: 2,
      locale: "it",
      attributes: { seats: 6, end: "2027-05-01" },
    });
    expect(changed.attributes).not.toHaveProperty("plan");
    expect(changed.opt_in).toMatchObject({ source: "form" });
    expect((await ask("POST", "/v1/contacts", { key: "ana", opt_in: null })).json).toMatchObject({ opt_in: null });
    await ask("POST", "/v1/contacts", { key: "bea", conversation_ids: [await conversationOf(1)] });
    expect((await ask("GET", `/v1/contacts/${id}`)).json).toMatchObject({ conversation_ids: [] });
    expect((await ask("DELETE", `/v1/contacts/${id}`)).status).toBe(204);
  });
});

describe("with a schedule", () => {
  const withNews = (work: (t: Scheduled, id: string) => Promise<void>) =>
    withSchedules({}, async (t) => {
      await t.person("ana", 1);
      await work(t, await t.schedule({ ...DAILY, name: "news" }));
    });

  it("a change wants the version that was read, and keeps what it doesn't name", async () => {
    await withNews(async ({ ask }, id) => {
      const path = `/v1/schedules/${id}`;
      expect((await ask("PATCH", path, { overlap: "queue" })).status).toBe(422);
      const changed = (await ask("PATCH", path, { version: 1, when: { cron: "0 10 * * *" }, jitter: "PT1M" }))
        .json as Json;
      expect(changed).toMatchObject({ version: 2, when: { cron: "0 10 * * *" }, jitter: "PT60S", instruction: "news" });
      expect(String(changed.next_at)).toContain("T10:00:00");
      expect((await ask("PATCH", path, { version: 1, name: "other" })).status).toBe(409);
      await ask("POST", "/v1/schedules", { ...BODY, name: "other" });
      expect((await ask("PATCH", path, { version: 2, name: "other" })).status).toBe(409);
      expect((await ask("POST", "/v1/schedules", { ...BODY, name: "other" })).status).toBe(409);
      expect((await ask("PATCH", path, { version: 2, time_zone: "Mars/Olympus" })).status).toBe(422);
    });
  });

  it("run now comes once for one key, also when the request comes again", async () => {
    await withNews(async (t, id) => {
      const run = (key: string) =>
        fetch(`${t.url}/v1/schedules/${id}/run`, { method: "POST", headers: { "idempotency-key": key } });
      const answers = await Promise.all(["a", "a", "a", "b"].map(run));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 202, 202]);
      await t.settle();
      // The second one came while the first wasn't over.
      expect((await t.occurrences(id)).map(({ status }) => status).sort()).toEqual(["produced", "skipped"]);
      expect(await t.texts(2, 1)).toEqual(["you said hello", "news"]);
      expect((await t.ask("GET", `/v1/schedules/${id}/firings`)).json).toHaveLength(2);
    });
  });

  it("a paused one sends nothing, not even what was made before, and goes on from when it is resumed", async () => {
    await withSchedules({}, async (t) => {
      await t.person("ana", 1);
      const id = await t.schedule({ ...DAILY, jitter: "PT10H" });
      const { next_at: nextAt } = (await t.ask("GET", `/v1/schedules/${id}`)).json as { next_at: string };
      await t.at(nextAt);
      expect(await t.occurrences(id)).toMatchObject([{ status: "pending" }]);
      expect((await t.ask("POST", `/v1/schedules/${id}/pause`)).json).toMatchObject({
        status: "paused",
        next_at: null,
      });
      await t.at(new Date(Date.parse(nextAt) + 3 * 86_400_000));
      expect(t.telegram.messages(1)).toHaveLength(1);
      expect((await t.ask("POST", `/v1/schedules/${id}/run`)).status).toBe(409);
      const resumed = (await t.ask("POST", `/v1/schedules/${id}/resume`)).json as Json;
      expect(Date.parse(String(resumed.next_at)) - Date.parse(nextAt)).toBe(4 * 86_400_000);
      await t.settle();
      expect(await t.texts(2, 1)).toEqual(["you said hello", "news"]);
      expect(await t.occurrences(id)).toHaveLength(1);
    });
  });

  it("backfill makes what was missed, once, and reaches who was passed over then", async () => {
    await withNews(async (t, id) => {
      await t.person("bob", 2, { attributes: {} });
      const { next_at: nextAt } = (await t.ask("GET", `/v1/schedules/${id}`)).json as { next_at: string };
      await t.ask("PATCH", `/v1/schedules/${id}`, { version: 1, instruction: "news for {{name}}" });
      await t.ask("POST", "/v1/contacts", { key: "ana", attributes: { name: "Ana" } });
      // Nobody looks for two days, and the second one is over by more than its window.
      await t.advance(Date.parse(nextAt) + 2 * 86_400_000 + 7 * 3_600_000 - (await t.now()).getTime());
      await t.settle();
      const firings = async () => (await t.ask("GET", `/v1/schedules/${id}/firings`)).json as Json[];
      expect(await firings()).toMatchObject([{ status: "missed", times: 3 }]);
      expect(t.telegram.messages(1)).toHaveLength(1);
      const to = new Date(Date.parse(nextAt) + 86_400_000).toISOString();
      const stretch = { from: nextAt, to, overlap: "queue" };
      expect((await t.ask("POST", `/v1/schedules/${id}/backfill`, stretch)).json).toMatchObject({
        times: [nextAt, to],
      });
      await t.settle();
      expect(await t.texts(3, 1)).toHaveLength(3);
      expect((await t.occurrences(id)).map(({ status }) => status).sort()).toEqual([
        ...["produced", "produced", "skipped", "skipped"],
      ]);
      await t.ask("POST", "/v1/contacts", { key: "bob", attributes: { name: "Bob" } });
      await t.ask("POST", `/v1/schedules/${id}/backfill`, stretch);
      await t.settle();
      expect(await t.texts(3, 2)).toEqual(["you said hello", "news for Bob", "news for Bob"]);
      expect(t.telegram.messages(1)).toHaveLength(3);
      expect((await t.ask("POST", `/v1/schedules/${id}/backfill`, { from: to, to: nextAt })).status).toBe(422);
      expect(
        (await t.ask("POST", `/v1/schedules/${id}/backfill`, { from: nextAt, to: "2099-01-01T00:00:00Z" })).status,
      ).toBe(422);
    });
  });

  it("a preview says when, by which clock, and who gets it or why not", async () => {
    await withSchedules({}, async (t) => {
      await t.person("ana", 1, { time_zone: "Asia/Tokyo", attributes: { name: "Ana" } });
      await t.person("bob", 2);
      const when = { when: { cron: "30 2 * * *" }, time_zone: "America/New_York", starts_at: "2027-03-14T00:00:00Z" };
      const id = await t.schedule({
        ...{ ...when, quiet_hours: { from: "15:00", to: "20:00" }, instruction: "Hello {{name}}", max_occurrences: 2 },
      });
      const preview = (await t.ask("GET", `/v1/schedules/${id}/preview?times=3&recipients=10`)).json as {
        times: Json[];
      };
      expect(preview.times).toMatchObject([
        {
          at: "2027-03-14T07:00:00.000Z",
          local: "Sun 14 Mar 2027, 03:00 (America/New_York)",
          utc: "Sun 14 Mar 2027, 07:00 (UTC)",
          reason: "the clocks leave out 02:30 that day: it is the first moment after",
        },
        { local: "Mon 15 Mar 2027, 02:30 (America/New_York)", reason: null },
      ]);
      expect(preview.times[0]?.recipients).toEqual(
        expect.arrayContaining([
          expect.objectContaining({
            ...{ key: "ana", gets_it: true, local: "Sun 14 Mar 2027, 20:00 (Asia/Tokyo)", reason: "after quiet hours" },
          }),
          expect.objectContaining({ key: "bob", gets_it: false, reason: "no value for name" }),
        ]),
      );
      expect(await t.occurrences(id)).toEqual([]);
    });
  });

  it("an audience is found by attributes: numbers as numbers, dates as text, and nothing else than was asked", async () => {
    await withSchedules({ deliverers: 0, workers: 0 }, async (t) => {
      const people = [
        ["a", { plan: "pro", seats: 10, end: "2027-05-01" }],
        ["b", { plan: "pro", seats: 9, end: "2027-06-01", left: true }],
        ["c", { plan: "free", seats: "10" }],
        ["d", { plan: null }],
      ] as const;
      for (const [key, attributes] of people) await t.ask("POST", "/v1/contacts", { key, attributes });
      const found = async (where: object[]) => {
        const id = await t.schedule({ ...DAILY, audience: { where } });
        const { times } = (await t.ask("GET", `/v1/schedules/${id}/preview?times=1&recipients=10`)).json as {
          times: Json[];
        };
        return ((times[0]?.recipients ?? []) as { key: string }[])
          .map(({ key }) => key)
          .sort()
          .join("");
      };
      expect(await found([])).toBe("abcd");
      expect(await found([{ attribute: "plan", op: "eq", value: "pro" }])).toBe("ab");
      expect(await found([{ attribute: "plan", op: "ne", value: "pro" }])).toBe("cd");
      expect(await found([{ attribute: "plan", op: "in", value: ["free", "pro"] }])).toBe("abc");
      expect(await found([{ attribute: "seats", op: "gt", value: 9 }])).toBe("a");
      expect(await found([{ attribute: "seats", op: "lte", value: 9 }])).toBe("b");
      expect(await found([{ attribute: "end", op: "lt", value: "2027-06-01" }])).toBe("a");
      expect(await found([{ attribute: "left", op: "eq", value: true }])).toBe("b");
      expect(await found([{ attribute: "plan", op: "absent" }])).toBe("d");
      expect(
        await found([
          { attribute: "plan", op: "exists" },
          { attribute: "seats", op: "eq", value: 10 },
        ]),
      ).toBe("a");
      expect(await found([{ attribute: "x' or true --", op: "exists" }])).toBe("");
    });
  });
});
