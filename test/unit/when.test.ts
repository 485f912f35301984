// When something is to happen: by the wall's clock where the person is, whatever the machine's own zone is.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { instantOf, isoDurationMs, localText, UnclearTime } from "../../src/schedule/when.js";

const NOW = new Date("2027-01-01T00:00:00Z");
const at = (when: string, timeZone: string) => instantOf({ at: when, timeZone }, NOW, "UTC").at.toISOString();

describe("a time on the wall", () => {
  it.each([
    ["an ordinary morning", "2027-03-16T09:00:00", "Europe/Rome", "2027-03-16T08:00:00.000Z"],
    ["a time that the spring gap has not", "2027-03-14T02:30:00", "America/New_York", "2027-03-14T07:30:00.000Z"],
    [
      "a time that the autumn has twice: the first",
      "2027-11-07T01:30:00",
      "America/New_York",
      "2027-11-07T05:30:00.000Z",
    ],
    ["a shift of half an hour", "2027-10-03T02:15:00", "Australia/Lord_Howe", "2027-10-02T15:45:00.000Z"],
    ["with an offset of its own", "2027-03-16T09:00:00+09:00", "Europe/Rome", "2027-03-16T00:00:00.000Z"],
  ])("%s", (_, when, timeZone, expected) => {
    expect(at(when, timeZone)).toBe(expected);
  });

  it.each([
    ["in the past", { at: "2026-12-31T09:00:00" }, /is over/],
    ["no date", { at: "next Tuesday" }, /is no time/],
    ["a day that there isn't", { at: "2027-02-30T09:00:00" }, /is no time/],
    ["an unknown zone", { at: "2027-03-16T09:00:00", timeZone: "Europe/Atlantis" }, /no time zone/],
    ["the wrong weekday", { at: "2027-03-16T09:00:00", weekday: "Wednesday" }, /is a Tuesday, not a Wednesday/],
    ["no weekday", { at: "2027-03-16T09:00:00", weekday: "Caturday" }, /no day of the week/],
    ["no duration", { in: "10 minutes" }, /no duration/],
  ])("refuses %s", (_, when, message) => {
    expect(() => instantOf(when, NOW, "UTC")).toThrow(UnclearTime);
    expect(() => instantOf(when, NOW, "UTC")).toThrow(message);
  });
});

it("durations are ISO 8601", () => {
  expect(isoDurationMs("PT10M")).toBe(600_000);
  expect(isoDurationMs("P6W")).toBe(6 * 7 * 86_400_000);
  expect(isoDurationMs("P1DT2H")).toBe(26 * 3_600_000);
  for (const none of ["", "P", "PT", "10m", "P-1D"]) expect(isoDurationMs(none)).toBeUndefined();
});

it("is said in words that show a wrong day at once", () => {
  expect(localText(new Date("2027-03-16T08:00:00Z"), "Europe/Rome")).toBe("Tue 16 Mar 2027, 09:00 (Europe/Rome)");
});

it("is the same instant whatever zone the machine is in", () => {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const script = `import { instantOf } from "./src/schedule/when.ts";
    const of = (at, timeZone) => instantOf({ at, timeZone }, new Date("2027-01-01T00:00:00Z"), "UTC").at.toISOString();
    console.log(of("2027-03-14T02:30:00", "America/New_York"), of("2027-11-07T01:30:00", "America/New_York"), of("2027-03-16T09:00:00", "Europe/Rome"));`;
  const said = ["UTC", "Asia/Tokyo", "America/New_York"].map((TZ) =>
    execFileSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      cwd: root,
      env: { ...process.env, TZ },
      encoding: "utf8",
    }),
  );
  expect(new Set(said).size).toBe(1);
  expect(said[0]).toBe("2027-03-14T07:30:00.000Z 2027-11-07T05:30:00.000Z 2027-03-16T08:00:00.000Z\n");
});
