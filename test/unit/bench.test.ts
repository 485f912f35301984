// The arithmetic of the benchmark: a wrong ratio would be believed.
import { describe, expect, test, vi } from "vitest";
import { readArguments } from "../bench/arguments.js";
import { quantile, timedPool } from "../bench/measure/numbers.js";
import { createReport, ratioOf, resultTables } from "../bench/measure/report.js";
import { judge, type Target } from "../bench/measure/targets.js";
import { TARGETS } from "../bench/targets.js";

const ours = { who: "perdure", work: "c=50", figure: "runs/s" };
const peer = { ...ours, who: "peer" };

function samplesOf(rounds: readonly (readonly [ours: number | null, peer: number | null])[]) {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  const report = createReport(null);
  rounds.forEach(([a, b], i) => {
    const sample = { round: i + 1, part: "part", work: "c=50" };
    report.add({ ...sample, who: "perdure", figures: { "runs/s": a } });
    report.add({ ...sample, who: "peer", figures: { "runs/s": b } });
  });
  vi.restoreAllMocks();
  return report.samples();
}

test("a ratio is taken within a round, so that a busy round does not shift it", () => {
  // Medians of each side alone would say 30 / 50.
  const samples = samplesOf([
    [100, 50],
    [10, 5],
    [30, 100],
  ]);
  expect(ratioOf(samples, ours, peer)).toBe(2);
});

describe("a target", () => {
  const atLeast: Target = { name: "t", ours, peer, must: { atLeast: 2 }, aim: { atLeast: 3 } };
  const atMost: Target = { name: "t", ours, must: { atMost: 4 }, aim: { atMost: 2 } };

  test.each([
    [atLeast, 300, "aim"],
    [atLeast, 299, "must"],
    [atLeast, 199, "missed"],
    [atLeast, null, "n/a"],
    [atMost, 2, "aim"],
    [atMost, 2.1, "must"],
    [atMost, 4.1, "missed"],
    [atMost, null, "n/a"],
  ] as const)("%o with %s against 100 is judged %s", (target, value, verdict) => {
    expect(judge(samplesOf([[value, 100]]), target).verdict).toBe(verdict);
  });

  test("without its peer's figure is not judged", () => {
    expect(judge(samplesOf([[300, null]]), atLeast)).toMatchObject({ ours: 300, figure: null, verdict: "n/a" });
  });
});

test("a target shows the worse noise of both sides", () => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  const report = createReport(null);
  const sample = { round: 1, part: "part", work: "c=50" };
  report.add({ ...sample, who: "perdure", figures: { "runs/s": 2, "foreign cores": 0.1 } });
  report.add({ ...sample, who: "peer", figures: { "runs/s": 1, "foreign cores": 0.9 } });
  vi.restoreAllMocks();
  const target: Target = { name: "t", ours, peer, must: { atLeast: 2 }, aim: { atLeast: 3 } };
  expect(judge(report.samples(), target)).toMatchObject({ figure: 2, verdict: "must", foreignCores: 0.9 });
});

test("an aim is never easier than its must", () => {
  for (const { name, must, aim } of TARGETS) {
    if ("atLeast" in must && "atLeast" in aim) expect(aim.atLeast, name).toBeGreaterThan(must.atLeast);
    else if ("atMost" in must && "atMost" in aim) expect(aim.atMost, name).toBeLessThan(must.atMost);
    else expect.unreachable(`${name}: must and aim look different ways`);
  }
});

test("the table shows the median of the rounds", () => {
  const samples = samplesOf([
    [1, null],
    [9, null],
    [2, null],
  ]);
  const [, head, , row] = resultTables(samples).split("\n");
  expect(head).toMatch(/who +\| what +\| runs\/s/);
  expect(row).toMatch(/perdure +\| c=50 +\| 2 /);
});

test("quantiles lie between the two nearest values", () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
  expect(quantile([1, 2, 3], 1)).toBe(3);
  expect(quantile([], 0.5)).toBeNaN();
});

test("a pool does each piece once, and never more at a time than it may", async () => {
  let [now, most] = [0, 0];
  const { latenciesMs } = await timedPool(7, 3, async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
  });
  expect(latenciesMs).toHaveLength(7);
  expect(most).toBe(3);
});

describe("the command line", () => {
  test("has three rounds, or one when quick", () => {
    expect(readArguments([])).toMatchObject({ rounds: 3, peers: true, check: false, out: null });
    expect(readArguments(["--quick", "--only", "http,latency"])).toMatchObject({
      rounds: 1,
      only: ["http", "latency"],
    });
  });

  test.each([[["--only", "htp"]], [["--rounds", "0"]], [["--unknown"]]])("refuses %j", (args) => {
    expect(() => readArguments(args)).toThrow();
  });
});
