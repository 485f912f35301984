// Joining a thread: all that its runs stream, one after the other, in any process; who comes back goes on where they were.
import { expect, test } from "vitest";
import { Client } from "@langchain/langgraph-sdk";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";

type Event = Readonly<{ id?: string; event: string; data: unknown }>;
type Mode = "run_modes" | "lifecycle" | "state_update";
type Options = Readonly<{ lastEventId?: string; streamMode?: Mode | Mode[] }>;

/** What a client that joins is told, until it has heard of so many ends of runs. */
async function join(client: Client, threadId: string, options: Options, ends: number): Promise<Event[]> {
  const leave = new AbortController();
  const told: Event[] = [];
  try {
    for await (const event of client.threads.joinStream(threadId, { ...options, signal: leave.signal })) {
      told.push(event);
      if (isEnd(event)) ends -= 1;
      if (ends === 0) break;
    }
  } finally {
    leave.abort();
  }
  return told;
}

const isEnd = ({ event, data }: Event): boolean =>
  event === "state_update" || (event === "metadata" && (data as { status?: string }).status === "run_done");

async function runs(t: TestEngine, threadId: string, count: number): Promise<string[]> {
  const ids = [];
  for (let n = 0; n < count; n += 1) {
    const run = await t.client.runs.create(threadId, "steps", { input: { log: [] }, streamMode: ["updates"] });
    await t.client.runs.join(threadId, run.run_id);
    ids.push(run.run_id);
  }
  return ids;
}

const clientOf = (app: TestEngine["app"]): Client =>
  new Client({
    apiUrl: "http://perdure.test",
    callerOptions: {
      fetch: async (input: URL | Request | string, init?: RequestInit) => app.fetch(new Request(input, init)),
      maxRetries: 0,
    },
  });

test("from the beginning it tells every run, more than are looked through at once, with the same ids in any process", () =>
  withEngine({ graphs }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const ids = await runs(t, thread_id, 10);
    const told = await join(t.client, thread_id, { lastEventId: "-" }, 10);
    const done = told.filter(isEnd).map(({ data }) => data);
    expect(done).toEqual(ids.map((run_id) => ({ run_id, status: "run_done", run_status: "success" })));
    expect(told.filter(({ event }) => event === "updates")).toHaveLength(30);
    expect(new Set(told.map(({ id }) => id)).size).toBe(told.length);
    expect(await join(clientOf(t.anotherApp()), thread_id, { lastEventId: "-" }, 10)).toEqual(told);
  }));

test("who comes back with the last id misses nothing and is told nothing twice, wherever they were cut off", () =>
  withEngine({ graphs }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await runs(t, thread_id, 2);
    const all = await join(t.client, thread_id, { lastEventId: "-" }, 2);
    for (const [at, { id }] of all.slice(0, -1).entries()) {
      const rest = all.slice(at + 1);
      const ends = rest.filter(isEnd).length;
      expect(await join(t.client, thread_id, { lastEventId: id! }, ends)).toEqual(rest);
    }
  }));

test("without an id it tells what comes from now on", () =>
  withEngine({ graphs }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await runs(t, thread_id, 1);
    const listening = join(t.client, thread_id, {}, 1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const [next] = await runs(t, thread_id, 1);
    const told = await listening;
    expect(told[0]).toMatchObject({ event: "metadata", data: { run_id: next } });
    expect(told.at(-1)).toMatchObject({ event: "metadata", data: { run_id: next, status: "run_done" } });
  }));

test("lifecycle tells beginnings and ends, state_update what each run left", () =>
  withEngine({ graphs }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const ids = await runs(t, thread_id, 2);
    const life = await join(t.client, thread_id, { lastEventId: "-", streamMode: "lifecycle" }, 2);
    expect(life.map(({ event, data }) => [event, (data as { run_id: string }).run_id])).toEqual(
      ids.flatMap((id) => [
        ["metadata", id],
        ["metadata", id],
      ]),
    );
    const states = await join(t.client, thread_id, { lastEventId: "-", streamMode: "state_update" }, 2);
    expect(states.map(({ event, data }) => [event, (data as { values: unknown }).values])).toEqual([
      ["state_update", { log: ["1", "2", "3"] }],
      ["state_update", { log: ["1", "2", "3", "1", "2", "3"] }],
    ]);
  }));

test("what can't be meant is refused", () =>
  withEngine({ graphs, workers: 0 }, async ({ app, client }) => {
    const { thread_id } = await client.threads.create();
    const nobody = "00000000-0000-4000-8000-000000000000";
    const status = async (path: string, headers: Record<string, string> = {}) =>
      (await app.request(path, { headers })).status;
    expect(await status(`/threads/${nobody}/stream`)).toBe(404);
    expect(await status(`/threads/${thread_id}/stream?stream_mode=values`)).toBe(422);
    expect(await status(`/threads/${thread_id}/stream`, { "last-event-id": "x" })).toBe(422);
    expect(await status(`/threads/${thread_id}/stream`, { "last-event-id": `${nobody}:x` })).toBe(422);
  }));
