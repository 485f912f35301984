// Components that a graph's runs name: built from a project's own file, and loaded by a page as Agent Chat UI does.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { createContext, runInContext } from "node:vm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createApp } from "../../src/api/app.js";
import { buildUi } from "../../src/engine/graph-ui.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs });
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.resolve("node_modules/.perdure-ui-"));
  await mkdir(path.join(dir, "ui"));
  await writeFile(
    path.join(dir, "ui/cards.tsx"),
    `import "./cards.css";
import { useState } from "react";
const Card = ({ title }: { title: string }) => { useState(0); return <b>{title}</b>; };
export default { card: Card };`,
  );
  await writeFile(path.join(dir, "ui/cards.css"), ".card { color: teal }");
  await writeFile(path.join(dir, "ui/broken.tsx"), "export default {;");
});
afterAll(() => rm(dir, { recursive: true }));

const project = (files: Readonly<Record<string, string>>) => ({ dir, ui: { files, shared: [] } });

it("a page is told what to load, loads it, and has the component shown where it asked for it", async () => {
  const ui = await buildUi(project({ "my-agent": "./ui/cards.tsx" }));
  const app = createApp(shared().engine, { ui });
  const told = await app.request("http://agents.test/ui/my-agent", {
    method: "POST",
    body: JSON.stringify({ name: "card" }),
    headers: { "content-type": "application/json", host: "agents.test" },
  });
  expect(told.headers.get("content-type")).toContain("text/html");
  const html = await told.text();
  expect(html).toContain('<link rel="stylesheet" href="//agents.test/ui/my-agent/entrypoint.css" />');
  expect(html).toContain(
    `<script src="//agents.test/ui/my-agent/entrypoint.js" onload='__LGUI_my_agent.render("card", "{{shadowRootId}}")'></script>`,
  );

  const script = await app.request("/ui/my-agent/entrypoint.js");
  expect(script.headers.get("content-type")).toContain("text/javascript");
  const shown: unknown[] = [];
  const shadowRoot = { appendChild: () => undefined };
  const page = {
    document: { getElementById: () => ({ shadowRoot }), createElement: (name: string) => ({ name }) },
    [Symbol.for("LGUI_REQUIRE")]: () => ({ useState: () => undefined, jsx: (type: unknown) => ({ type }) }),
    [Symbol.for("LGUI_EXT_STORE")]: { respond: (...given: unknown[]) => shown.push(given) },
  };
  const context = createContext(Object.assign(page, { window: page }));
  runInContext(`${await script.text()}; __LGUI_my_agent.render("card", "root-1");`, context);
  expect(shown).toEqual([["root-1", expect.any(Function), { name: "div" }]]);
  const css = await app.request("/ui/my-agent/entrypoint.css");
  expect([css.headers.get("content-type"), await css.text()]).toEqual([
    expect.stringContaining("text/css"),
    expect.stringMatching(/\.card\s*\{\s*color: teal/),
  ]);
});

it("what isn't there is 404, and what could leave its place in a page doesn't", async () => {
  const ui = new Map([["agent", new Map([["entrypoint.js", new Uint8Array()]])]]);
  const app = createApp(shared().engine, { ui });
  const ask = (graph: string, name: string, host: string) =>
    app.request(`/ui/${graph}`, { method: "POST", body: JSON.stringify({ name }), headers: { host } });
  expect((await ask("other", "card", "a.test")).status).toBe(404);
  expect((await app.request("/ui/agent/..%2Fpackage.json")).status).toBe(404);
  expect((await app.request("/ui/agent/other.js")).status).toBe(404);
  expect((await ask("agent", "card", `a.test"><script>`)).status).toBe(400);
  const html = await (await ask("agent", `'><script>alert(1)</script>`, "localhost:2024")).text();
  expect(html).toMatch(/^<script src="http:\/\/localhost:2024\//);
  expect(html).not.toContain("alert(1)</script>");
  expect(html.match(/'/g)).toHaveLength(2);
});

it("what can't be built is refused with the graph and the file", async () => {
  await expect(buildUi(project({ agent: "./ui/broken.tsx" }))).rejects.toThrow(
    /"ui" of agent \(.*broken\.tsx\) can't be built/,
  );
  await expect(buildUi(project({ agent: "../outside.tsx" }))).rejects.toThrow("relative to the project root");
});
