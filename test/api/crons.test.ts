// Crons, by the stock client and a clock that moves: what they make, when, and what becomes of times that nobody looked at.
import { describe, expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { until } from "../helpers/wait.js";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const engine = sharedEngine({ graphs: { steps, gate }, workers: 1, movable: true });
const crons = () => engine().client.crons;
type Cron = Awaited<ReturnType<ReturnType<typeof crons>["update"]>>;
type Firing = Readonly<{
  occurrence_at: string;
  status: string;
  reason: string | null;
  times: number;
  run_id: string;
  thread_id: string;
}>;

async function send<T>(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; text: string; json: T }> {
  const response = await engine().app.request(path, {
    ...{ method, headers: { "content-type": "application/json" } },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text, json: (/^[[{\d]/.test(text) ? JSON.parse(text) : null) as T };
}
const firings = async (id: string) => (await send<Firing[]>("GET", `/v1/crons/${id}/firings`)).json;
const get = async (id: string) => (await send<Cron>("GET", `/runs/crons/${id}`)).json;

async function now(): Promise<Date> {
  const { rows } = await engine().deps.db.query<{ now: Date }>("select clock_timestamp() as now");
  return (rows[0] as { now: Date }).now;
}

/** Moves the clock there, and fires what is due. */
async function at(instant: string | Date): Promise<void> {
  await engine().advance(Math.max(0, new Date(instant).getTime() - (await now()).getTime()) + 10);
  await until("nothing is due", async () => (await engine().fireTimers()) === 0);
}
const fires = async (cron: { next_run_date: string | null | undefined }) => at(cron.next_run_date ?? "");
const ended = (runId: string) =>
  until("the run is over", async () => {
    const { rows } = await engine().deps.db.query<{ status: string; metadata: object }>(
      "select status, metadata from runs where run_id = $1 and status not in ('pending', 'running')",
      [runId],
    );
    return rows[0];
  });

const INPUT = { log: ["cron"] };

describe("the stock client", () => {
  test("makes, finds, sorts, chooses, counts, changes and deletes", async () => {
    const { thread_id: threadId } = await engine().client.threads.create();
    const a = await crons().create("steps", {
      schedule: "0 0 1 1 *",
      input: INPUT,
      metadata: { set: "x", n: 1 },
      timezone: "Europe/Rome",
    });
    const b = await crons().createForThread(threadId, "gate", {
      schedule: "30 * * * *",
      input: INPUT,
      metadata: { set: "x" },
    });
    expect(a).toMatchObject({
      thread_id: null,
      schedule: "0 0 1 1 *",
      timezone: "Europe/Rome",
      enabled: true,
      on_run_completed: "delete",
      payload: { input: INPUT },
    });
    expect(new Date(a.next_run_date).toISOString()).toMatch(/-12-31T23:00:00\.000Z$/);
    expect(b).toMatchObject({ thread_id: threadId, timezone: null });
    const ids = async (query: object) =>
      (await crons().search({ metadata: { set: "x" }, ...query })).map(({ cron_id }) => cron_id);
    expect(await ids({})).toEqual([b.cron_id, a.cron_id]);
    expect(await ids({ sortBy: "created_at", sortOrder: "asc" })).toEqual([a.cron_id, b.cron_id]);
    expect(await ids({ sortBy: "next_run_date", sortOrder: "desc" })).toEqual([a.cron_id, b.cron_id]);
    expect(await ids({ sortBy: "thread_id", sortOrder: "asc" })).toEqual([b.cron_id, a.cron_id]);
    expect(await ids({ sortBy: "cron_id", sortOrder: "asc", limit: 1, offset: 1 })).toEqual([b.cron_id]);
    expect(await ids({ assistantId: "steps" })).toEqual([a.cron_id]);
    expect(await ids({ assistantId: b.assistant_id, threadId, enabled: true })).toEqual([b.cron_id]);
    expect(await ids({ metadata: { set: "x", n: 1 } })).toEqual([a.cron_id]);
    expect(await ids({ assistantId: "nobody" })).toEqual([]);
    expect(await crons().search({ threadId, select: ["cron_id", "now"] })).toEqual([
      { cron_id: b.cron_id, now: expect.any(String) },
    ]);
    expect(await crons().count({ metadata: { set: "x" } })).toBe(2);
    expect(await crons().count({ threadId })).toBe(1);

    const off = await crons().update(a.cron_id, {
      enabled: false,
      input: { log: ["else"] },
      endTime: "2099-01-01T00:00:00Z",
    });
    expect(off).toMatchObject({
      enabled: false,
      next_run_date: null,
      payload: { input: { log: ["else"] } },
      schedule: "0 0 1 1 *",
      metadata: { set: "x", n: 1 },
    });
    const on = await crons().update(a.cron_id, { enabled: true, schedule: "0 0 2 1 *", endTime: null });
    expect(on).toMatchObject({ end_time: null, next_run_date: expect.stringMatching(/-01-01T23:00:00/) });
    await crons().delete(a.cron_id);
    await crons().delete(b.cron_id);
    expect(await ids({})).toEqual([]);
    await expect(crons().delete(a.cron_id)).rejects.toThrow(/404/);
  });

  test("a key makes one cron", async () => {
    const ask = () =>
      engine().app.request("/runs/crons", {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "one" },
        body: JSON.stringify({ assistant_id: "steps", schedule: "0 0 1 1 *", metadata: { set: "key" } }),
      });
    const answers = await Promise.all([ask(), ask(), ask()]);
    const ids = await Promise.all(answers.map(async (answer) => ((await answer.json()) as Cron).cron_id));
    expect(new Set(ids).size).toBe(1);
    expect(await crons().count({ metadata: { set: "key" } })).toBe(1);
    await crons().delete(ids[0] ?? "");
  });

  test("what can't be meant is refused by name, and makes nothing", async () => {
    const count = await crons().count();
    const base = { assistant_id: "steps", schedule: "0 9 * * *" };
    const refused: (readonly [string, object, number, RegExp])[] = [
      ["/runs/crons", { ...base, schedule: "often" }, 422, /cron/],
      ["/runs/crons", { ...base, schedule: "0 0 31 2 *" }, 422, /never comes/],
      ["/runs/crons", { ...base, timezone: "Mars/Base" }, 422, /time zone/],
      ["/runs/crons", { ...base, end_time: "yesterday" }, 422, /end_time/],
      ["/runs/crons", { ...base, end_time: "2020-01-01T00:00:00Z" }, 422, /end_time/],
      ["/runs/crons", { ...base, assistant_id: "nobody" }, 404, /assistant/],
      ["/runs/crons", { ...base, interrupt_before: ["nowhere"] }, 422, /interrupt_before/],
      ["/runs/crons", { ...base, durability: "exit" }, 422, /durability/],
      ["/runs/crons", { ...base, on_run_completed: "maybe" }, 422, /on_run_completed/],
      ["/threads/00000000-0000-4000-8000-000000000000/runs/crons", base, 404, /Thread/],
      ["/runs/crons/search", { sort_by: "color" }, 422, /sort_by/],
      ["/runs/crons/search", { select: ["color"] }, 422, /select/],
    ];
    for (const [path, body, status, text] of refused) {
      expect(await send("POST", path, body)).toMatchObject({ status, text: expect.stringMatching(text) });
    }
    expect(await crons().count()).toBe(count);
  });

  test("another tenant has none of it", async () => {
    const { cron_id: id } = await crons().create("steps", { schedule: "0 0 1 1 *" });
    const app = createApp({ ...engine().engine, tenantOf: () => Promise.resolve("else" as TenantId) });
    const ask = async (method: string, path: string) => {
      const body = method === "GET" ? {} : { body: "{}" };
      return (await app.request(path, { method, headers: { "content-type": "application/json" }, ...body })).status;
    };
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
    ] as const) {
      expect(await ask(method, `/runs/crons/${id}${path}`)).toBe(404);
    }
    expect(await ask("GET", `/v1/crons/${id}/firings`)).toBe(404);
    const counted = await app.request("/runs/crons/count", { method: "POST", body: "{}" });
    expect(await counted.json()).toBe(0);
    await crons().delete(id);
  });
});

describe("runs", () => {
  test("are made at each time, on a thread of their own that goes or stays, with what was asked; the end ends it", async () => {
    const soon = new Date((Math.ceil((await now()).getTime() / 3_600_000) + 1.5) * 3_600_000).toISOString();
    const keep = { input: INPUT, metadata: { why: "cron" }, onRunCompleted: "keep", endTime: soon } as const;
    const cron = await crons().create("steps", { schedule: "0 * * * *", ...keep });
    const gone = await crons().create("steps", { schedule: "0 * * * *", input: INPUT });
    await fires(cron);
    const [fired] = await firings(cron.cron_id);
    expect(fired).toMatchObject({ status: "fired", occurrence_at: cron.next_run_date, times: 1 });
    expect(await ended(fired?.run_id ?? "")).toMatchObject({
      status: "success",
      metadata: { why: "cron", cron_id: cron.cron_id },
    });
    const state = await engine().client.threads.getState(fired?.thread_id ?? "");
    expect(state.values).toEqual({ log: ["cron", "1", "2", "3"] });
    const [other] = await firings(gone.cron_id);
    expect(await ended(other?.run_id ?? "")).toMatchObject({ status: "success" });
    // Nobody sees it, and it goes.
    await expect(engine().client.threads.get(other?.thread_id ?? "")).rejects.toThrow(/404/);
    const { rows } = await engine().deps.db.query("select 1 from timers where kind = 'thread.delete' and ref_id = $1", [
      other?.thread_id,
    ]);
    expect(rows).toHaveLength(1);
    await crons().delete(gone.cron_id);
    await fires(await get(cron.cron_id));
    expect(await get(cron.cron_id)).toMatchObject({ next_run_date: null, enabled: true });
    expect(await firings(cron.cron_id)).toHaveLength(2);
    await crons().delete(cron.cron_id);
  });

  test("on a busy thread they are queued, or left out with the reason", async () => {
    const { thread_id: threadId } = await engine().client.threads.create();
    await engine().client.runs.create(threadId, "steps", { input: INPUT, afterSeconds: 86_400 * 30 });
    const on = { schedule: "0 * * * *", input: INPUT };
    const queued = await crons().createForThread(threadId, "steps", on);
    const refused = await crons().createForThread(threadId, "steps", { ...on, multitaskStrategy: "reject" });
    await fires(queued);
    const [first] = await firings(queued.cron_id);
    expect(first).toMatchObject({ status: "fired", thread_id: threadId });
    expect(await firings(refused.cron_id)).toMatchObject([
      { status: "skipped", reason: expect.stringContaining("already running"), run_id: null },
    ]);
    await crons().delete(queued.cron_id);
    await crons().delete(refused.cron_id);
    await engine().client.threads.delete(threadId);
  });

  test("J3: after an outage only the last time is made up for, within hours, and the others are told", async () => {
    const cron = await crons().create("steps", { schedule: "*/10 * * * *", input: INPUT });
    const daily = await crons().create("steps", { schedule: "0 12 * * *", timezone: "UTC", input: INPUT });
    const day = new Date(new Date(daily.next_run_date).getTime() + 7 * 3_600_000);
    await at(day);
    const told = await firings(cron.cron_id);
    expect(told.map(({ status }) => status)).toEqual(["fired", "missed"]);
    expect(told[0]?.occurrence_at).toBe(day.toISOString());
    expect(told[1]?.times).toBeGreaterThan(40);
    expect(await firings(daily.cron_id)).toMatchObject([
      { status: "missed", times: 1, reason: expect.stringContaining("nobody looked") },
    ]);
    expect(Date.parse((await get(cron.cron_id)).next_run_date ?? "")).toBe(day.getTime() + 600_000);
    await crons().delete(cron.cron_id);
    await crons().delete(daily.cron_id);
  });

  test("J1: a time that the clocks leave out comes at the first moment after, one that comes twice once", async () => {
    await at("2027-03-27T12:00:00Z");
    const cron = await crons().create("steps", { schedule: "30 2 * * *", timezone: "Europe/Berlin", input: INPUT });
    const half = await crons().create("steps", {
      schedule: "*/30 * * * *",
      timezone: "Australia/Lord_Howe",
      input: INPUT,
    });
    expect(cron.next_run_date).toBe("2027-03-28T01:00:00.000Z");
    await fires(cron);
    expect((await get(cron.cron_id)).next_run_date).toBe("2027-03-29T00:30:00.000Z");
    expect(Date.parse((await get(half.cron_id)).next_run_date ?? "")).toBe(Date.parse("2027-03-28T01:30:00Z"));
    await crons().delete(half.cron_id);
    await at("2027-10-30T12:00:00Z");
    expect((await get(cron.cron_id)).next_run_date).toBe("2027-10-31T00:30:00.000Z");
    await fires(await get(cron.cron_id));
    expect((await get(cron.cron_id)).next_run_date).toBe("2027-11-01T01:30:00.000Z");
    await crons().delete(cron.cron_id);
  });
});
