import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { perdure: fileURLToPath(new URL("src/index.ts", import.meta.url)) } },
  test: {
    // LangGraph's conformance suites use the global describe, it and expect.
    globals: true,
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/helpers/global-setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
