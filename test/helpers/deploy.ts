// The same installation with other code, as while a deploy is under way.
import { createApp } from "../../src/api/app.js";
import { composeLoops, type Running } from "../../src/compose-loops.js";
import { composeEngine, prepareEngine } from "../../src/compose.js";
import { graphsFrom } from "../../src/engine/graphs.js";
import type { TestEngine } from "./engine.js";

export type Deployed = Readonly<{
  engine: TestEngine["engine"];
  app: TestEngine["app"];
  /** Its worker; it is stopped afterwards. */
  startWorker(): () => Promise<void>;
}>;

/** What `graph` is there, in version v2: its API, and a worker of the same process if wanted. */
export async function withDeploy(
  t: TestEngine,
  graph: unknown,
  work: (deployed: Deployed) => Promise<void>,
): Promise<void> {
  const { settings, ...parts } = t.engine;
  const engine = composeEngine(
    { deps: parts.deps, store: parts.store, source: null, keys: { current: null, old: [] }, close: async () => {} },
    graphsFrom({ graph }, { version: "v2" }),
    settings,
  );
  await prepareEngine(engine);
  const running: Running[] = [];
  try {
    await work({
      engine,
      app: createApp(engine),
      startWorker() {
        const [worker] = composeLoops(engine, ["worker"], { concurrency: 1 }) as [Running];
        worker.start();
        running.push(worker);
        return () => worker.stop();
      },
    });
  } finally {
    for (const worker of running) await worker.stop();
  }
}
