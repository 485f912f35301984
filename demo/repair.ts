// The second half of the story: a failed research run is found, looked into, and repaired by a fork with an edited state.
import { Client, type Run, type ThreadState } from "@langchain/langgraph-sdk";
import { readCalls } from "./calls.js";
import type { Server } from "./server.js";
import { BrokenPromise, chapter, promise, tell } from "./story.js";

type Finding = Readonly<{ source: string; year: number | null; claim: string }>;
type Checkpoint = Readonly<{ checkpoint_id: string }>;
type Research = Readonly<{ findings: Record<string, Finding>; report?: string }>;

/** Chapters 6 and 7. */
export async function repairFailedResearch(server: Server, callLog: string): Promise<void> {
  const client = new Client({ apiUrl: server.apiUrl });

  chapter("6. A research run fails");
  const { thread_id: threadId } = await client.threads.create();
  const input = { question: "Why do otters hold hands, and what does folklore say?" };
  const run = await client.runs.create(threadId, "research", { input });
  // join gives the state or throws the run's error; either way the run is over.
  await client.runs.join(threadId, run.run_id).catch(() => null);
  const failed = (await server.cli("runs", "ls", "--status", "error")) as Run[];
  promise(
    "perdure runs ls --status error: it is listed",
    failed.some(({ run_id }) => run_id === run.run_id),
    failed,
  );
  const modelCalls = readCalls(callLog).count("research model", "finished");

  chapter("7. Rewind: fork from the last good checkpoint, with the state edited");
  const history = await client.threads.getHistory<Research>(threadId);
  for (const state of [...history].reverse()) tell(`step ${step(state)}: then ${state.next.join(", ") || "the end"}`);
  const lastGood = history[0];
  if (lastGood?.next[0] !== "check_sources")
    throw new BrokenPromise("the newest checkpoint should be before check_sources");
  const error = lastGood.tasks.find((task) => task.error)?.error;
  tell(`check_sources failed: ${String(error)}`);

  const finding = lastGood.values.findings["folklore"];
  promise("the state of that moment says why: no year", finding?.year === null, lastGood.values);
  const edited = await client.threads.updateState(threadId, {
    checkpoint: lastGood.checkpoint,
    values: { findings: { folklore: { ...finding, year: 1911 } } },
    asNode: "investigate",
  });
  // The wire answers with the new checkpoint, whatever the SDK's type says.
  const { checkpoint_id: checkpointId } = (edited as unknown as Readonly<{ checkpoint: Checkpoint }>).checkpoint;
  tell("forked from it, with the year put in");
  const end = (await client.runs.wait(threadId, "research", { input: null, checkpointId })) as Research;
  promise("the fork succeeds: the report cites (Tales of the Coast, 1911)", /Coast, 1911/.test(end.report ?? ""), end);
  const again = readCalls(callLog).count("research model", "finished") - modelCalls;
  promise("it asked the model once more, for the report; the research was not repeated", again === 1, again);
}

function step(state: ThreadState<Research>): string {
  return String(state.metadata?.step ?? "?");
}
