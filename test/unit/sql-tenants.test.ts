// P13, in the SQL itself: a statement names the tenant of each table it touches. This counts, it doesn't understand: a
// statement that names a tenant's table more often than `tenant_id` is one that somebody has to look at.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src/", import.meta.url));
const SCHEMA = readFileSync(new URL("../schema.sql", import.meta.url), "utf8");
const TABLES = new Set(
  [...SCHEMA.matchAll(/^table (\w+).*\n(?=(?: {2}.*\n)*? {2}tenant_id )/gm)].map(([, name]) => name),
);

/** The loops that serve all tenants alike: they hand no row to anybody. */
const FOR_ALL_TENANTS = [
  /^select due\.\* from unnest\(\$1::text\[\]\) k\(kind\) cross join lateral \( select \S+ from timers t where t\.status = 'due'/,
  /^select extract\(epoch from min\(first\.due_at\) .* cross join lateral \( select t\.due_at from timers t where t\.status = 'due'/,
  /^delete from idempotency_keys where created_at < /,
  /^delete from model_calls where thread_id is null and day < /,
  /^delete from timers where status <> 'due' and updated_at < /,
  // A webhook comes with the account's id alone, and proves itself with that account's secret.
  /^select \S+ from channel_accounts where channel_account_id = \$1$/,
  /^delete from cron_firings where not is_open and created_at < /,
  /^delete from schedule_firings where status <> 'firing' and updated_at < /,
  // A browser asks before it says whose page it shows.
  /^select 1 from channel_accounts where kind = 'web' and settings -> 'allowed_origins' \? \$1 limit 1$/,
  /^delete from inbound_events where received_at < /,
  // How many there are, for operators.
  /^select \(select count\(\*\)::int from \( select 1 from runs where status = 'pending' and head /,
  /^select \(select count\(\*\)::int from \( select 1 from deliveries where status in /,
  /^select k\.kind, found\.overdue, found\.seconds from unnest\(\$1::text\[\]\) k\(kind\) /,
  /^select count\(\*\)::int as n from \(select 1 from approvals where status = 'pending' limit \$1\) a$/,
  // The store is indexed in one go, whoever's items they are; each gets its vectors in its tenant's name.
  /^with page as \( select namespace_path, key, value, sha256\(.* left join store_vectors v on /,
];

/** The SQL texts in a source file that touch more tables of tenants than they name tenants. */
function loose(name: string, text: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const sql = node.getText().slice(1, -1).replaceAll(/\s+/g, " ").trim();
      const touched = [...sql.matchAll(/\b(?:from|join|into|update|using) (\w+)/g)].filter(([, table]) =>
        TABLES.has(table),
      );
      const named = sql.match(/tenant_id/g)?.length ?? 0;
      if (touched.length > named && !FOR_ALL_TENANTS.some((pattern) => pattern.test(sql)))
        found.push(`${name}: ${sql}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true));
  return found;
}

it("every statement names the tenant of each table it touches", () => {
  expect(TABLES.size).toBeGreaterThan(10);
  expect(TABLES).toContain("runs");
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  expect(files.flatMap((file) => loose(file, readFileSync(`${SRC}/${file}`, "utf8")))).toEqual([]);
});

it("a statement without one is found", () => {
  const planted = "sql.query(`select run_id from runs join threads using (thread_id) where tenant_id = $1`)";
  expect(loose("planted.ts", planted)).toEqual([expect.stringContaining("planted.ts: select run_id from runs")]);
});
