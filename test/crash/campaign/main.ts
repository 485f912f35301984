// npm run campaign -- --seed 1 --minutes 20
import { parseArgs } from "node:util";
import { campaign } from "./campaign.js";
import { figures, shortfalls, violations } from "./figures.js";

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
for (const [what, n] of [["seed", seed], ["minutes", minutes], ...figures(report)] as const)
  console.log(`${what.padEnd(32)} ${String(n).padStart(8)}`);
const complaints = [...violations(report), ...shortfalls(report, minutes)];
for (const line of complaints) console.error(line);
process.exit(complaints.length === 0 ? 0 : 1);
