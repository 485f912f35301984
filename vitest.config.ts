import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (name: string): string => fileURLToPath(new URL(`src/${name}.ts`, import.meta.url));

export default defineConfig({
  // By their whole names: the first would be found in the others.
  resolve: {
    alias: [
      { find: /^perdure$/, replacement: source("index") },
      { find: /^perdure\/channels$/, replacement: source("channels") },
      { find: /^perdure\/tools$/, replacement: source("tools") },
      { find: /^perdure\/testing$/, replacement: source("testing") },
    ],
  },
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
