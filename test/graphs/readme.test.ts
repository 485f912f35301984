// The README's example, as it stands there: a reader who copies it sees what it says.
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { listenApi } from "../../src/compose-api.js";
import { withEngine } from "../helpers/engine.js";
import { loadExample } from "./load.js";

test("the README's example asks, is answered, and ends with the money on its way", async () => {
  const root = new URL("../../", import.meta.url);
  const readme = await readFile(new URL("README.md", root), "utf8");
  const example = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? "";
  await withEngine({ graphs: { support: await loadExample("support") } }, async ({ engine }) => {
    const api = await listenApi(engine, { host: "127.0.0.1", port: 0 });
    try {
      const code = example.replace("http://127.0.0.1:2024", api.url);
      const node = promisify(execFile);
      const { stdout } = await node(process.execPath, ["--input-type=module", "-e", code], {
        cwd: fileURLToPath(root),
      });
      expect(stdout).toContain("__interrupt__");
      expect(stdout).toContain("Done: 129.00 EUR are on their way back to you.");
    } finally {
      await api.close();
    }
  });
});
