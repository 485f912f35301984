// npm run campaign -- --seed 1 --minutes 20
import { parseArgs } from "node:util";
import { campaign, violations } from "./campaign.js";

const { values } = parseArgs({
  options: { seed: { type: "string", default: "1" }, minutes: { type: "string", default: "20" } },
});
const [seed, minutes] = [Number(values.seed), Number(values.minutes)];
if (!Number.isInteger(seed) || !(minutes > 0)) {
  console.error("usage: npm run campaign -- [--seed <whole number>] [--minutes <number>]");
  process.exit(2);
}
const progress = (line: string): void => console.error(`campaign: ${line}`);
const report = await campaign({ seed, seconds: minutes * 60, progress });
const { verdict, broken, cutOff, restSeconds } = report;
const { runs, approvals, doubts, retried, effects, ...found } = verdict;
const rows = [
  ["seed", seed],
  ["minutes", minutes],
  ["runs", runs],
  ["approvals", approvals],
  ["effects", effects],
  ["… whose answer was cut off", cutOff],
  ["… in doubt, and asked about", doubts],
  ["runs that a person retried", retried],
  ...Object.entries(broken).map(([what, n]) => [what, n]),
  ["seconds to come to rest", Math.round(restSeconds)],
  ...Object.entries(found).map(([what, list]) => [what, list.length]),
];
for (const [what, n] of rows) console.log(`${String(what).padEnd(30)} ${String(n).padStart(8)}`);
const broke = violations(report);
for (const line of broke) console.error(line);
process.exit(broke.length === 0 ? 0 : 1);
