// One engine for a whole test file, for tests that keep to their own threads.
import { afterAll, beforeAll } from "vitest";
import { type EngineOptions, type TestEngine, withEngine } from "../helpers/engine.js";

/** Opened before the file's tests, closed after them; to be asked for inside a test. */
export function sharedEngine(options: EngineOptions): () => TestEngine {
  let engine: TestEngine | undefined;
  let finish: () => void = () => undefined;
  let finished: Promise<void> | undefined;

  beforeAll(
    () =>
      new Promise<void>((ready, failed) => {
        finished = withEngine(options, (opened) => {
          engine = opened;
          ready();
          return new Promise<void>((resolve) => {
            finish = resolve;
          });
        });
        finished.catch(failed);
      }),
  );
  afterAll(async () => {
    finish();
    await finished;
  });
  return () => {
    if (engine === undefined) throw new Error("the engine is there only inside tests");
    return engine;
  };
}
