// Random histories of threads, on the real saver, mover and database and on a model in memory: no difference, ever.
import fc from "fast-check";
import { afterAll, beforeAll, test } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { SHAPE } from "../../src/checkpoint/codec/format.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers, TINY } from "../helpers/savers.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { Player } from "./play.js";
import { type Step, steps } from "./steps.js";

/** Threads that live at the same time, and share statements. */
const AT_ONCE = 10;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

test.each([
  { shape: SHAPE, largeBytes: 2_000, name: "the stored shape", seed: 11, quick: 20 },
  { shape: TINY, largeBytes: 300, name: "trees of two, bodies uploaded from 300 bytes on", seed: 12, quick: 10 },
])(
  "no history of a thread reads otherwise than it was written ($name)",
  async ({ shape, largeBytes, seed, quick }) => {
    const savers = createTestSavers(database.db, createMemoryStore(), { shape, largeBytes });
    const live = async (history: readonly Step[]): Promise<void> => {
      const player = new Player(savers);
      for (const step of history) await player.play(step);
      await player.check();
    };
    const property = fc.asyncProperty(
      fc.array(steps, { minLength: 1, maxLength: AT_ONCE, size: "max" }),
      async (histories) => {
        const ends = await Promise.allSettled(histories.map(live));
        for (const end of ends) if (end.status === "rejected") throw end.reason;
      },
    );
    // An array has half its maximum of items on average.
    await fc.assert(property, {
      numRuns: size(quick, 5_000) / (AT_ONCE / 2),
      seed,
      endOnFailure: true,
    });
  },
  SOAK_MS,
);
