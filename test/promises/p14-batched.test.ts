// What a stream of tokens costs: they are stored and announced in batches, and the process that makes them doesn't read them back.
import { createAgent } from "langchain";
import { expect, it } from "vitest";
import type { Db } from "../../src/core/deps.js";
import { createNotifier } from "../../src/db/listen.js";
import { createLog } from "../../src/observe/log.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { testClock } from "../helpers/stream.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const TOKENS = 2_000;
const text = Array.from({ length: TOKENS }, (_, n) => `w${n}`).join(" ");
const talker = createAgent({ model: new StreamingModel(() => ({ text }), 1), tools: [] });

/** The texts of all statements from now on. */
function statements({ db }: TestEngine["deps"]): string[] {
  const texts: string[] = [];
  const { query, tx } = db;
  const counted: Pick<Db, "query" | "tx"> = {
    query(sql, values, options) {
      texts.push(sql);
      return query(sql, values, options);
    },
    tx: (work) =>
      tx((sql) =>
        work({
          query(statement, values, options) {
            texts.push(statement);
            return sql.query(statement, values, options);
          },
        }),
      ),
  };
  Object.assign(db, counted);
  return texts;
}

async function tokens({ client }: Pick<TestEngine, "client">): Promise<string> {
  let said = "";
  const input = { messages: [{ role: "user", content: "go" }] };
  for await (const { event, data } of client.runs.stream(null, "talker", { input, streamMode: ["messages-tuple"] })) {
    if (event === "messages") said += String((data as unknown as [{ content: unknown }])[0].content);
  }
  return said;
}

it.each([
  ["in the process that makes them", true],
  ["in another process", false],
] as const)(`${TOKENS} tokens, watched %s, make far fewer statements and notifications`, async (_where, withApi) => {
  await withEngine({ graphs: { talker }, workers: 0 }, async (engine) => {
    const { deps, db, startWorker } = engine;
    const another = createNotifier({
      db: db.db,
      listenUrl: db.url,
      log: createLog("silent"),
      clock: testClock,
      random: () => 0.5,
    });
    let heard = 0;
    another.listen("lines", (id) => void (id !== undefined && (heard += 1)));
    startWorker({ withApi });
    try {
      // The other one is there, and all that is prepared once.
      expect(await tokens(engine)).toBe(text);
      heard = 0;
      const texts = statements(deps);
      const startedMs = performance.now();
      expect(await tokens(engine)).toBe(text);
      const tookMs = performance.now() - startedMs;
      const appends = texts.filter((sql) => /insert into stream_chunks/.test(sql)).length;
      const reads = texts.filter((sql) => /from stream_chunks s\b/.test(sql) && !/insert into/.test(sql)).length;
      const sent = texts.filter((sql) => /pg_notify/.test(sql)).length;
      console.log({ withApi, tookMs, statements: texts.length, appends, reads, sent, heard });
      // One every 25 ms at most, however slow the machine is.
      expect(appends).toBeLessThan(10 + tookMs / 24);
      expect(sent).toBeLessThan(20 + tookMs / 24);
      expect(texts.length).toBeLessThan(100 + tookMs / 8);
      // The first look, the last, and one every two seconds.
      if (withApi) expect(reads).toBeLessThan(4 + tookMs / 1_000);
      else expect(reads).toBeLessThan(20 + tookMs / 20);
    } finally {
      await another.close();
    }
  });
});
