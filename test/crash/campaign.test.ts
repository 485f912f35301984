// The campaign in short: an installation under load that is broken again and again keeps its promises. The long one is
// `npm run campaign`.
import { expect, test } from "vitest";
import { campaign } from "./campaign/campaign.js";
import { violations } from "./campaign/figures.js";

test("under kills, freezes, outages and lost replies nothing is lost, stuck or done twice, and no dead attempt writes", async () => {
  const report = await campaign({ seed: 7, seconds: 15, clients: 4, workers: 2, everyMs: 1_500, thinkMs: 300 });
  expect(violations(report)).toEqual([]);
  const { verdict, broken } = report;
  expect(verdict.runs).toBeGreaterThan(10);
  expect(verdict.effects).toBeGreaterThan(1);
  expect(verdict.stock).toBeGreaterThan(1);
  expect(verdict.talk.turns).toBeGreaterThan(1);
  expect(Object.values(broken).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(4);
}, 300_000);
