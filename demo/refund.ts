// The first half of the story: a support run loses its worker in the middle of a tool call, waits for a person through
// a restart of everything, and pays back once.
import { Client, type Message, type Run } from "@langchain/langgraph-sdk";
import { readCalls } from "./calls.js";
import type { Server } from "./server.js";
import { BrokenPromise, chapter, promise, seconds, tell, until } from "./story.js";

export type WaitingRun = Readonly<{ threadId: string; runId: string }>;

type Messages = Readonly<{ messages: Message[] }>;
type Approval = Readonly<{ thread_id: string; status: string }>;

const FIND = "shop: find order";
const TRACK = "shop: track parcel";
const PAY = "shop: pay back";

/** Chapters 2 and 3: until the run waits for a person. */
export async function crashInToolCall(server: Server, callLog: string): Promise<WaitingRun> {
  const client = new Client({ apiUrl: server.apiUrl });

  chapter("2. A customer wants money back; the worker is killed in the middle of a tool call");
  const { thread_id: threadId } = await client.threads.create();
  const complaint = "My order 1042 arrived broken, I want my money back.";
  const { run_id: runId } = await client.runs.create(threadId, "support", {
    input: { messages: [{ role: "user", content: complaint }] },
    streamMode: ["updates"],
    streamResumable: true,
  });
  tell(`run ${runId} starts; the model asks for two tools at once`);
  // A client is shown a tool's result only once it is stored: seeing this one means that no crash can lose it.
  await seeUpdateOf(client, threadId, runId, "look_up_order");
  promise("look_up_order is done, and its result stored", readCalls(callLog).count(FIND, "finished") === 1);
  const victim = readCalls(callLog).pid(TRACK);
  if (victim === undefined || readCalls(callLog).count(TRACK, "finished") > 0) {
    throw new BrokenPromise("track_parcel should be under way now, and it is not");
  }
  promise(`track_parcel is under way in worker ${victim}`, (await server.workers()).includes(victim), {
    workers: await server.workers(),
  });
  process.kill(victim, "SIGKILL");
  const killedAt = seconds();
  tell(`kill -9 ${victim}; when its lease is over, another worker takes the run`);

  await until("another worker to enter track_parcel again", 60_000, async () => {
    const pid = readCalls(callLog).pid(TRACK);
    return pid !== undefined && pid !== victim ? pid : null;
  });
  const heir = readCalls(callLog).pid(TRACK);
  tell(`worker ${heir} goes on ${(seconds() - killedAt).toFixed(1)} s after the kill`);

  chapter("3. The run waits for a person");
  await until("the run to wait for approval", 60_000, async () => {
    const { status } = await client.threads.get(threadId);
    return status === "interrupted" ? status : null;
  });
  const calls = readCalls(callLog);
  promise("only the tool that was cut off was called again", calls.count(TRACK, "started") === 2, calls.repeated());
  promise("no finished model or tool call was repeated", calls.repeated().length === 0, calls.repeated());
  promise("the refund has not happened", calls.count(PAY, "started") === 0);
  await holdsNothing(server, threadId);
  return { threadId, runId };
}

/** Chapter 5: the answer, and the end of the run. */
export async function decideAfterRestart(server: Server, callLog: string, run: WaitingRun): Promise<void> {
  const client = new Client({ apiUrl: server.apiUrl });

  chapter("5. A person approves; the run completes");
  const state = await client.threads.getState(run.threadId);
  const asked = JSON.stringify(state.tasks.flatMap((task) => task.interrupts ?? []));
  promise("the question is still there: a refund of 129.00 EUR", asked.includes("129.00 EUR"), state.tasks);
  const end = (await client.runs.wait(run.threadId, "support", {
    command: { resume: { decisions: [{ type: "approve" }] } },
  })) as Messages;
  const calls = readCalls(callLog);
  promise("paid back exactly once", calls.count(PAY, "started") === 1, calls.count(PAY, "started"));
  promise("nothing that was done before was done again", calls.repeated().length === 0, calls.repeated());
  const answer = end.messages.at(-1)?.content;
  promise(`the agent says: ${String(answer)}`, answer === "Done: 129.00 EUR are on their way back to you.", answer);
}

/** Follows the run's updates until one holds a message of this tool. */
async function seeUpdateOf(client: Client, threadId: string, runId: string, tool: string): Promise<void> {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), 60_000);
  try {
    const stream = client.runs.joinStream(threadId, runId, { streamMode: ["updates"], signal: giveUp.signal });
    let last: unknown;
    for await (const { event, data } of stream) {
      last = { event, data: data as unknown };
      if (event === "updates" && JSON.stringify(data).includes(`"name":"${tool}"`) && "tools" in data) return;
    }
    throw new BrokenPromise(`the run's stream ended without a result of ${tool}, with ${JSON.stringify(last)}`);
  } catch (error) {
    throw giveUp.signal.aborted ? new BrokenPromise(`no result of ${tool} was streamed within 60 s`) : error;
  } finally {
    clearTimeout(timer);
    giveUp.abort();
  }
}

async function holdsNothing(server: Server, threadId: string): Promise<void> {
  const busy = (await server.cli("runs", "ls", "--status", "running")) as Run[];
  promise("perdure runs ls --status running: none, so no worker is busy", busy.length === 0, busy);
  const approvals = (await server.cli("approvals", "ls")) as Approval[];
  const mine = approvals.filter((approval) => approval.thread_id === threadId);
  promise("perdure approvals ls: one question, pending", mine.length === 1 && mine[0]?.status === "pending", approvals);
}
