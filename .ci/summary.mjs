// Reads vitest's JSON reports in a folder and ends with one line: N passed, N failed, N skipped.
// Usage: node summary.mjs <folder> [failed step …]. Exits with 1 if anything failed, or if no test ran.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const [folder, ...failedSteps] = process.argv.slice(2);
const reports = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((file) => ({
    step: path.basename(file, ".json"),
    ...JSON.parse(readFileSync(path.join(folder, file), "utf8")),
  }));

const results = reports.flatMap((report) => report.testResults);
const tests = results.flatMap((file) => file.assertionResults.map((test) => ({ ...test, file: file.name })));
const count = (...statuses) => tests.filter((test) => statuses.includes(test.status)).length;

// A file that can't be loaded fails without a failed test in it.
const brokenFiles = results.filter(
  (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"),
);
const passed = count("passed");
const skipped = count("skipped", "pending", "todo", "disabled");
// A step that failed although no test in it did (a lint, a build, a crash of the runner) counts as one.
const explained = new Set(
  reports.filter(({ testResults }) => testResults.some(({ status }) => status === "failed")).map(({ step }) => step),
);
const unexplained = failedSteps.filter((step) => !explained.has(step));
const failed = count("failed") + brokenFiles.length + unexplained.length || (passed === 0 ? 1 : 0);

console.log("");
for (const test of tests.filter(({ status }) => status === "failed"))
  console.log(`failed: ${test.file}: ${test.fullName}`);
for (const file of brokenFiles) console.log(`failed: ${file.name}: ${file.message.split("\n", 1)[0]}`);
for (const test of tests.filter(({ status }) => status === "skipped" || status === "pending")) {
  console.log(`skipped: ${test.fullName}`);
}
for (const step of failedSteps) console.log(`failed step: ${step}`);
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed > 0 ? 1 : 0;
