// DBOS Transact: a workflow of ten steps that do nothing, started directly. It is no graph; the row is the engine alone.
import { timedPool } from "../measure/numbers.js";
import { serveCalls } from "./calls.js";

/** What is used of it: the package is among the peers, which only a benchmark installs. */
type Dbos = Readonly<{
  DBOS: Readonly<{
    setConfig(config: object): void;
    launch(): Promise<void>;
    runStep(step: () => Promise<void>, options: object): Promise<void>;
    registerWorkflow(work: () => Promise<number>, options: object): () => Promise<number>;
    startWorkflow(workflow: () => Promise<number>): () => Promise<Readonly<{ getResult(): Promise<number> }>>;
  }>;
}>;

let run: () => Promise<unknown>;

serveCalls({
  async open({ url }: { url: string }) {
    const peer = "@dbos-inc/dbos-sdk";
    const { DBOS } = (await import(peer)) as Dbos;
    const step = async (): Promise<void> => {};
    const workflow = DBOS.registerWorkflow(
      async () => {
        for (let i = 0; i < 10; i += 1) await DBOS.runStep(step, { name: "step" });
        return 10;
      },
      { name: "ten" },
    );
    const config = { name: "bench", applicationVersion: "1", logLevel: "error" };
    DBOS.setConfig({ ...config, systemDatabaseUrl: url, systemDatabasePoolSize: 20 });
    await DBOS.launch();
    run = async () => {
      const handle = await DBOS.startWorkflow(workflow)();
      if ((await handle.getResult()) !== 10) throw new Error("a workflow ended with something else than 10");
    };
  },
  load: ({ n, concurrency }: { n: number; concurrency: number }) => timedPool(n, concurrency, () => run()),
});
