// When schedules come, over changes of the clocks, wherever the machine is; and what becomes of times that were missed.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it, test } from "vitest";
import { planOf } from "../../src/schedule/plan.js";
import { quietUntil } from "../../src/schedule/quiet-hours.js";
import { checkRule, shiftOf } from "../../src/schedule/recurrence.js";
import type { ScheduleRow } from "../../src/schedule/schedules.js";
import { fillIn, strayMark } from "../../src/schedule/template.js";
import { addDays, dateIn } from "../../src/schedule/wall.js";

/** [cron, zone, after, then the next ones in UTC]. */
const TABLE: readonly (readonly [string, string, string, readonly string[]])[] = [
  // In the spring gap: once, at the first moment after.
  ["30 2 * * *", "America/New_York", "2027-03-13T12:00Z", ["03-14T07:00", "03-15T06:30"]],
  ["30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", ["03-28T01:00", "03-29T00:30"]],
  ["15 2 * * *", "Australia/Lord_Howe", "2027-10-02T00:00Z", ["10-02T15:30", "10-03T15:15"]],
  ["30 2 * * *", "Australia/Lord_Howe", "2027-10-02T00:00Z", ["10-02T15:30", "10-03T15:30"]],
  // In the autumn overlap: once, the first time.
  ["30 1 * * *", "America/New_York", "2027-11-06T12:00Z", ["11-07T05:30", "11-08T06:30"]],
  ["30 2 * * *", "Europe/Berlin", "2027-10-30T12:00Z", ["10-31T00:30", "11-01T01:30"]],
  ["45 1 * * *", "Australia/Lord_Howe", "2027-04-03T00:00Z", ["04-03T14:45", "04-04T15:15"]],
  // Every half hour is every real half hour.
  [
    "*/30 * * * *",
    "America/New_York",
    "2027-11-07T05:10Z",
    ["11-07T05:30", "11-07T06:00", "11-07T06:30", "11-07T07:00"],
  ],
  ["*/30 * * * *", "America/New_York", "2027-03-14T06:10Z", ["03-14T06:30", "03-14T07:00", "03-14T07:30"]],
  ["*/30 * * * *", "Europe/Berlin", "2027-10-31T00:10Z", ["10-31T00:30", "10-31T01:00", "10-31T01:30"]],
  ["*/30 * * * *", "Australia/Lord_Howe", "2027-04-03T14:10Z", ["04-03T14:30", "04-03T15:00", "04-03T15:30"]],
  ["*/30 * * * *", "Australia/Lord_Howe", "2027-10-02T14:50Z", ["10-02T15:00", "10-02T15:30", "10-02T16:00"]],
  // The same hour on the wall on both sides.
  ["0 9 * * *", "America/New_York", "2027-03-13T00:00Z", ["03-13T14:00", "03-14T13:00", "03-15T13:00"]],
  // The first of the month or a Monday, as cron has it; and what others don't know.
  ["0 9 1 * MON", "America/New_York", "2027-03-25T00:00Z", ["03-29T13:00", "04-01T13:00", "04-05T13:00"]],
  ["0 9 L * *", "America/New_York", "2027-03-01T15:00Z", ["03-31T13:00", "04-30T13:00"]],
  ["0 9 * * MON#2", "America/New_York", "2027-03-01T15:00Z", ["03-08T14:00", "04-12T13:00"]],
];

const CHILD = `
  const { nextOf } = await import(process.argv[1]);
  const rows = JSON.parse(process.argv[2]).map(([cron, timeZone, after, times]) => {
    let at = new Date(after);
    return times.map(() => (at = nextOf({ cron, timeZone }, at)).toISOString().slice(5, 16));
  });
  console.log(JSON.stringify({ offset: new Date(0).getTimezoneOffset(), rows }));`;

it.each(["UTC", "Asia/Tokyo", "America/New_York"])("a schedule comes at the same times on a machine in %s", (zone) => {
  const module = fileURLToPath(new URL("../../dist/schedule/recurrence.js", import.meta.url));
  const args = ["--input-type=module", "-e", CHILD, `file://${module}`, JSON.stringify(TABLE)];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", env: { ...process.env, TZ: zone } });
  expect(stderr).toBe("");
  const { offset, rows } = JSON.parse(stdout) as { offset: number; rows: string[][] };
  expect(offset).toBe({ UTC: 0, "Asia/Tokyo": -540, "America/New_York": 300 }[zone]);
  expect(rows).toEqual(TABLE.map(([, , , times]) => times));
});

const NOW = new Date("2027-03-01T00:00:00Z");

test.each([
  ["0 0 30 2 *", "UTC", "never comes"],
  ["0 0 9 * * *", "UTC", "five parts"],
  ["", "UTC", "five parts"],
  ["? 9 * * *", "UTC", "must not have a ?"],
  ["0 9 * * *", "Mars/Olympus", "no time zone"],
  ["*/10 * * * *", "UTC", "more often"],
  ["0,55 * * * *", "UTC", "more often"],
  ["0,50 0,23 * * *", "UTC", "more often"],
])("the rule %j in %s is refused, saying what is wrong", (cron, timeZone, said) => {
  expect(() => checkRule({ cron, timeZone }, NOW, 15 * 60_000)).toThrow(said);
});

it("every quarter of an hour is allowed, and once a year", () => {
  checkRule({ cron: "*/15 * * * *", timeZone: "Europe/Berlin" }, NOW, 15 * 60_000);
  checkRule({ cron: "0 9 29 2 *", timeZone: "UTC" }, NOW, 15 * 60_000);
});

it("a time that the clocks move says so", () => {
  const rule = { cron: "30 2 * * *", timeZone: "America/New_York" };
  expect(shiftOf(rule, new Date("2027-03-14T07:00Z"))).toContain("leave out 02:30");
  expect(shiftOf(rule, new Date("2027-03-15T06:30Z"))).toBeNull();
  expect(shiftOf({ ...rule, cron: "30 1 * * *" }, new Date("2027-11-07T05:30Z"))).toContain("twice");
});

describe("catching up", () => {
  const schedule = (more: Partial<ScheduleRow>) =>
    ({
      ...{ kind: "cron", cron: "0 9 * * *", timeZone: "UTC", startsAt: null, endsAt: null, relative: null },
      ...{ catchup: "latest", catchupWindowMs: 6 * 3_600_000, overlap: "skip", maxOccurrences: null, occurrences: 0 },
      ...more,
    }) as ScheduleRow;
  const first = new Date("2027-03-01T09:00Z");
  /** Three days later. */
  const at = (hour: string) => new Date(`2027-03-04T${hour}Z`);
  const planned = (more: Partial<ScheduleRow>, now: Date) => {
    const { firings, nextAt, ended } = planOf(schedule(more), first, now);
    const of = (status: string) => firings.filter((firing) => firing.status === status);
    return {
      fired: of("firing").map(({ occurrenceAt }) => occurrenceAt.toISOString().slice(5, 16)),
      missed: of("missed").reduce((sum, { times }) => sum + times, 0),
      next: nextAt?.toISOString().slice(5, 16) ?? null,
      ended,
    };
  };

  it("takes the latest one within its window, and counts the others", () => {
    expect(planned({}, at("12:00"))).toEqual({ fired: ["03-04T09:00"], missed: 3, next: "03-05T09:00", ended: false });
    expect(planned({}, at("15:01"))).toEqual({ fired: [], missed: 4, next: "03-05T09:00", ended: false });
  });

  it("skips what is over by more than a minute, or takes all of it up to ten", () => {
    expect(planned({ catchup: "skip" }, at("09:00:40"))).toMatchObject({ fired: ["03-04T09:00"], missed: 3 });
    expect(planned({ catchup: "skip" }, at("09:02"))).toMatchObject({ fired: [], missed: 4 });
    const all = ["03-01T09:00", "03-02T09:00", "03-03T09:00", "03-04T09:00"];
    expect(planned({ catchup: "all" }, at("12:00"))).toMatchObject({ fired: all, missed: 0 });
    const hourly = planned({ catchup: "all", cron: "0 * * * *" }, at("12:00"));
    expect(hourly).toMatchObject({ missed: 66, next: "03-04T13:00" });
    expect(hourly.fired).toHaveLength(10);
    expect(hourly.fired.at(-1)).toBe("03-04T12:00");
  });

  it("ends after so many occurrences, at its end, and once where it comes once", () => {
    expect(planned({ maxOccurrences: 5, occurrences: 4 }, at("09:00"))).toMatchObject({ next: null, ended: true });
    const ends = { endsAt: new Date("2027-03-04T10:00Z") };
    expect(planned(ends, at("12:00"))).toEqual({ fired: ["03-04T09:00"], missed: 3, next: null, ended: true });
    const once = { kind: "once", cron: null, startsAt: first } as const;
    expect(planOf(schedule(once), first, new Date("2027-03-01T10:00Z"))).toMatchObject({
      firings: [{ occurrenceAt: first, status: "firing" }],
      ended: true,
    });
    expect(planned(once, at("12:00"))).toEqual({ fired: [], missed: 1, next: null, ended: true });
  });
});

describe("quiet hours", () => {
  const night = { from: "21:00", to: "08:00" };
  const until = (at: string, zone = "Europe/Rome") => quietUntil(night, new Date(at), zone)?.toISOString() ?? null;

  it("last to their end on the recipient's wall, over midnight", () => {
    expect(until("2027-06-01T18:59Z")).toBeNull();
    expect(until("2027-06-01T19:00Z")).toBe("2027-06-02T06:00:00.000Z");
    expect(until("2027-06-02T05:59Z")).toBe("2027-06-02T06:00:00.000Z");
    expect(until("2027-06-02T06:00Z")).toBeNull();
    expect(until("2027-06-01T19:00Z", "America/New_York")).toBeNull();
  });

  it("end when the wall says so also in the night in which the clocks change", () => {
    expect(until("2027-03-27T22:00Z")).toBe("2027-03-28T06:00:00.000Z");
    expect(until("2027-10-30T22:00Z")).toBe("2027-10-31T07:00:00.000Z");
    expect(quietUntil({ from: "01:30", to: "02:30" }, new Date("2027-03-28T00:45Z"), "Europe/Rome")).toEqual(
      new Date("2027-03-28T01:00Z"),
    );
  });
});

describe("templates", () => {
  it("take names only, and nothing that isn't text, a number or yes and no", () => {
    const text = "Hello {{ name }}, {{days}} days";
    expect(fillIn(text, { name: "Ana", days: 30 })).toEqual({ text: "Hello Ana, 30 days" });
    expect(fillIn(text, { name: " ", days: null })).toEqual({ missing: ["name", "days"] });
    expect(fillIn("{{constructor}} {{toString}}", {})).toEqual({ missing: ["constructor", "toString"] });
    expect(fillIn("{{name}}", { name: { first: "Ana" } })).toEqual({ missing: ["name"] });
  });

  it("don't look at what was filled in again", () => {
    expect(fillIn("{{a}}", { a: "{{b}} $& $1", b: "secret" })).toEqual({ text: "{{b}} $& $1" });
  });

  it.each(["{{a.b}}", "{{ a | upper }}", "{{#if a}}", "{{", "}}", "{{}}"])("%s is no variable", (text) => {
    expect(strayMark(`x ${text}`)).not.toBeNull();
  });
});

it("dates of attributes are dates, or nothing", () => {
  expect(["2027-02-28", "2027-02-28T10:00:00Z", "2027-02-30", "28.2.2027", 5, null].map(dateIn)).toEqual([
    "2027-02-28",
    "2027-02-28",
    ...Array(4).fill(undefined),
  ]);
  expect(addDays("2027-03-01", -1)).toBe("2027-02-28");
});
