// The least that a queue of one's own around PostgresSaver needs, to be a durable engine over HTTP: a row per run, claimed
// with SKIP LOCKED, LangGraph with PostgresSaver, the result in the row. No fence, no streams, no recovery: an upper bound.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { tenNodes } from "../graphs/graphs.js";
import { serveCalls } from "./calls.js";

const SCHEMA = `
create table runs (run_id uuid primary key, thread_id text not null, status text not null, input json, output json,
  created_at timestamptz not null default now());
create index on runs (created_at) where status = 'pending'`;
const CLAIM = `
update runs set status = 'running'
where run_id in (
  select run_id from runs where status = 'pending' order by created_at limit $1 for update skip locked)
returning run_id as id, thread_id as thread, input`;

type Run = Readonly<{ id: string; thread: string; input: { n: number } }>;

serveCalls({
  async open({ url, port, slots }: { url: string; port: number; slots: number }) {
    const db = new pg.Pool({ connectionString: url, max: 20 });
    await db.query(SCHEMA);
    const saver = new PostgresSaver(db);
    await saver.setup();
    const graph = tenNodes.compile({ checkpointer: saver });
    const waiting = new Map<string, (output: object) => void>();
    let running = 0;
    let claiming = false;
    let asked = false;

    const claim = async (): Promise<void> => {
      asked = true;
      if (claiming) return;
      claiming = true;
      while (asked && running < slots) {
        asked = false;
        const { rows } = await db.query<Run>(CLAIM, [slots - running]);
        running += rows.length;
        for (const run of rows) void execute(run);
      }
      claiming = false;
    };
    const execute = async ({ id, thread, input }: Run): Promise<void> => {
      const output = await graph.invoke(input, { configurable: { thread_id: thread }, durability: "sync" });
      await db.query("update runs set status = 'success', output = $2 where run_id = $1", [id, JSON.stringify(output)]);
      running -= 1;
      waiting.get(id)?.(output);
      await claim();
    };
    const accept = async (input: object): Promise<object> => {
      const id = randomUUID();
      const done = new Promise<object>((resolve) => waiting.set(id, resolve));
      const values = [id, randomUUID(), JSON.stringify(input)];
      await db.query("insert into runs (run_id, thread_id, status, input) values ($1, $2, 'pending', $3)", values);
      void claim();
      const output = await done;
      waiting.delete(id);
      return output;
    };
    const server = createServer((request, response) => {
      void text(request)
        .then((body) => accept((JSON.parse(body) as { input: object }).input))
        .then((output) => response.setHeader("content-type", "application/json").end(JSON.stringify(output)));
    });
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  },
});
