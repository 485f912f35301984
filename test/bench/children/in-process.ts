// LangGraph.js alone in a process: the 10-node graph with a saver of its own, no server.
import { randomUUID } from "node:crypto";
import { MemorySaver } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { tenNodes } from "../graphs/graphs.js";
import { timedPool } from "../measure/numbers.js";
import { serveCalls } from "./calls.js";

let run: () => Promise<unknown>;

serveCalls({
  async open({ url }: { url: string | null }) {
    const graph = tenNodes.compile({ checkpointer: url === null ? new MemorySaver() : await postgresSaver(url) });
    run = async () => {
      const configurable = { thread_id: randomUUID() };
      const result = await graph.invoke({ n: 0 }, { configurable, durability: "sync" });
      if (result.n !== 10) throw new Error(`a run ended with ${JSON.stringify(result)}`);
    };
  },
  load: ({ n, concurrency }: { n: number; concurrency: number }) => timedPool(n, concurrency, () => run()),
});

async function postgresSaver(url: string): Promise<PostgresSaver> {
  const saver = new PostgresSaver(new pg.Pool({ connectionString: url, max: 20 }));
  await saver.setup();
  return saver;
}
