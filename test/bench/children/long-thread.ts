// One long conversation with one saver, in a process of its own: runs it, then reads it as a new process would.
import { randomUUID } from "node:crypto";
import { type Conversation, conversation } from "./conversation.js";
import { openSaver, type OpenedSaver, type SaverName } from "./savers.js";
import { nowMs } from "../measure/numbers.js";
import { serveCalls } from "./calls.js";

export type LongThread = Readonly<{
  saver: SaverName;
  url: string | null;
  /** A folder for bodies. */
  bodies: string | null;
  agent: "react" | "createAgent";
  /** Tool calls per turn. */
  tools: number;
  steps: number;
}>;

export type Ran = Readonly<{
  msPerStep: number;
  cpuMsPerStep: number;
  /** Time of the last tenth of the steps over that of the first tenth. */
  lastToFirst: number;
  conversationBytes: number;
}>;

const WARM_UP_STEPS = 20;

let thread: LongThread;
let opened: OpenedSaver;
const threadId = randomUUID();

serveCalls({
  async open(given: LongThread) {
    thread = given;
    opened = await openSaver(given);
    // Another thread, so that nothing of the one that is measured is known yet, but the code is compiled.
    await drive(conversation({ ...thread, rounds: WARM_UP_STEPS / 2 }), randomUUID());
  },

  async run(): Promise<Ran> {
    const script = conversation({ ...thread, rounds: thread.steps / 2 });
    const cpu = process.cpuUsage();
    const startedMs = nowMs();
    const messages = await drive(script, threadId);
    const endedMs = nowMs();
    const { user, system } = process.cpuUsage(cpu);
    const atMs = [...script.turnsAtMs, endedMs];
    return {
      msPerStep: (endedMs - startedMs) / thread.steps,
      cpuMsPerStep: (user + system) / 1_000 / thread.steps,
      lastToFirst: lastToFirst(atMs),
      conversationBytes: messages.reduce((sum, message) => sum + Buffer.byteLength(JSON.stringify(message)), 0),
    };
  },

  /** To the object store, as the mover does when a run is over. */
  move: () => opened.move(threadId),

  /** Cold: nothing of the thread is in memory. */
  async head(): Promise<number> {
    return timed(async () => {
      const graph = conversation({ ...thread, rounds: 0 }).graph(opened.coldSaver());
      const state = await graph.getState(configOf(threadId));
      if (state.values.messages.length < thread.steps) throw new Error("the state lacks messages");
    });
  },

  async history(): Promise<number> {
    return timed(async () => {
      const graph = conversation({ ...thread, rounds: 0 }).graph(opened.coldSaver());
      let seen = 0;
      for await (const state of graph.getStateHistory(configOf(threadId), { limit: 10 })) {
        if (state.values.messages !== undefined) seen += 1;
      }
      if (seen !== 10) throw new Error(`the history showed ${seen} states instead of 10`);
    });
  },
});

const configOf = (id: string) => ({ configurable: { thread_id: id } });

async function drive(script: Conversation, id: string): Promise<readonly object[]> {
  const graph = script.graph(opened.saver(id));
  const durability = thread.saver === "PostgresSaver async" ? "async" : "sync";
  const result = await graph.invoke(script.input, { ...configOf(id), durability, recursionLimit: 1_000_000 });
  return result.messages;
}

/** By rounds of a model's turn and its tools; `atMs` are their beginnings and the end. */
function lastToFirst(atMs: readonly number[]): number {
  const rounds = atMs.length - 1;
  const tenth = Math.max(1, Math.floor(rounds / 10));
  const span = (from: number, to: number): number => (atMs[to] ?? Number.NaN) - (atMs[from] ?? Number.NaN);
  return span(rounds - tenth, rounds) / span(0, tenth);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedMs = nowMs();
  await work();
  return nowMs() - startedMs;
}
