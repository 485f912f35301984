// What the docs name must be there: files, tables, settings. Prose grows old; this much of it can't.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { describeSettings } from "../src/config.js";

const root = new URL("../", import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, root), "utf8");
const list = (folder: string, ending: string): string[] =>
  readdirSync(new URL(folder, root)).flatMap((name) => (name.endsWith(ending) ? [`${folder}${name}`] : []));
const decisions = list("docs/decisions/", ".md");
const guides = list("docs/", ".md");
const architecture = read("ARCHITECTURE.md");

/** What MCP and A2A call by names like those of files. */
const METHODS = /^(?:agent|message|notifications|tasks)\//;

/** As they are imported: `perdure/testing`. */
const entryPoints = Object.keys((JSON.parse(read("package.json")) as { exports: object }).exports).map((entry) =>
  entry.replace(".", "perdure"),
);

test.each(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", ...guides, ...decisions])(
  "%s names only files that exist",
  (doc) => {
    const quoted = [...read(doc).matchAll(/`([a-z][\w-]*(?:\/[\w.-]*)+)`/g)].map(([, name = ""]) => name);
    const linked = [...read(doc).matchAll(/\]\(([^)#:]+)\)/g)].map(([, name = ""]) => name);
    const isThere = (name: string): boolean =>
      [name, `src/${name}`].some((file) => existsSync(new URL(file, root))) || entryPoints.includes(name);
    expect(quoted.filter((name) => !isThere(name) && !METHODS.test(name))).toEqual([]);
    expect(linked.filter((name) => !existsSync(new URL(name, new URL(doc, root))))).toEqual([]);
  },
);

test("every guide is reached from the README", () => {
  const linked = [...guides, "README.md"].flatMap((doc) =>
    [...read(doc).matchAll(/\]\(([^)#:]+\.md)\)/g)].map(([, name = ""]) => new URL(name, new URL(doc, root)).href),
  );
  expect(guides.filter((guide) => !linked.includes(new URL(guide, root).href))).toEqual([]);
});

test("ARCHITECTURE.md gives every table and view an owner", () => {
  const created = list("migrations/", ".sql").flatMap((file) =>
    [...read(file).matchAll(/^create (?:table|view) (\w+)/gm)].map(([, table = ""]) => table),
  );
  const owned = [...architecture.matchAll(/^\| `\w+\/` \| (.*) \|$/gm)].flatMap(([, tables = ""]) =>
    [...tables.matchAll(/`(\w+)`/g)].map(([, table = ""]) => table),
  );
  expect(owned.sort()).toEqual(created.sort());
});

test("docs/configuration.md lists every setting with its meaning and default", () => {
  const rows = describeSettings().map(
    ({ name, about, default: value }) => `| \`${name}\` | ${about} | ${value === null ? "–" : `\`${value}\``} |`,
  );
  const listed = read("docs/configuration.md").split("\n");
  expect(rows.filter((row) => !listed.includes(row))).toEqual([]);
});

test("the changelog names every migration", () => {
  const names = list("migrations/", ".sql").map((file) => file.replace(/^migrations\/|\.sql$/g, ""));
  expect(names.filter((name) => !read("CHANGELOG.md").includes(`\`${name}\``))).toEqual([]);
});
