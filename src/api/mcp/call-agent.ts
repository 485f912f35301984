// A call of an agent: a run on a thread of its own, waited for to its end, whichever worker brings it there. The run doesn't need its
// caller: one that goes away finds it by its ids.
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { Context } from "hono";
import { answeringRun, pendingApprovals } from "../../approvals/approvals.js";
import { endedBy } from "../../core/run.js";
import type { Engine } from "../../engine/engine.js";
import { runResult } from "../../engine/run-result.js";
import { awaitRun } from "../../engine/stream/await-run.js";
import type { RunOfThread, RunRow } from "../../runs/runs.js";
import type { ApiEnv } from "../env.js";
import { onceOf } from "../idempotency.js";
import { readAs } from "../request.js";
import { makeRun } from "../routes/runs.js";
import { statelessRunCreate } from "../schemas/runs.js";
import { HEARTBEAT_MS } from "../sse.js";
import { agentOf, inputOf } from "./agent-tools.js";
import { answered, failed } from "./results.js";

/** Says that it goes on; `told` grows. */
export type Progress = (told: number, message: string) => Promise<void>;

type Call = Readonly<{
  name: string;
  args: Readonly<Record<string, unknown>>;
  /** Aborted when nobody waits any more. */
  signal: AbortSignal;
  progress: Progress;
}>;

export async function callAgent(
  engine: Engine,
  c: Context<ApiEnv>,
  { name, args, signal, progress }: Call,
): Promise<CallToolResult> {
  const assistant = await agentOf(engine, c, name);
  const { from } = await inputOf(engine, assistant);
  // Whoever is asked something, or reads up what was done, needs the thread.
  const asked = { assistant_id: assistant.assistantId, input: from(args), on_completion: "keep" };
  const body = readAs(statelessRunCreate, asked);
  // Without the message's id: it is another one when the call is made again.
  const once = onceOf(engine, c, { name, arguments: args });
  const { run, again } = await makeRun(engine, c, { threadId: null, body, waits: true, once });
  const runId = again ? await answeringRun(engine.deps.db, run) : run.runId;
  const ended = await ending(engine, { ...run, runId }, { signal, progress, isNew: !again });
  return ended === undefined ? failed("Nobody waits any more; the run goes on", idsOf(run)) : resultOf(engine, ended);
}

type Wait = Pick<Call, "signal" | "progress"> & Readonly<{ isNew: boolean }>;

async function ending(
  engine: Engine,
  { tenantId, runId, status, attempt }: RunRow,
  { signal, progress, isNew }: Wait,
): Promise<RunOfThread | undefined> {
  let told = 0;
  const tell = (): void => {
    told += 1;
    void progress(told, `Run ${runId} goes on`).catch(() => undefined);
  };
  const telling = setInterval(tell, HEARTBEAT_MS);
  try {
    return await awaitRun(engine, { tenantId, runId, signal, isNew: isNew && status === "pending" && attempt === 0 });
  } finally {
    clearInterval(telling);
  }
}

function idsOf({ runId, threadId, assistantId }: Pick<RunRow, "runId" | "threadId" | "assistantId">) {
  return { run_id: runId, thread_id: threadId, assistant_id: assistantId };
}

async function resultOf(engine: Engine, run: RunOfThread): Promise<CallToolResult> {
  const ids = { ...idsOf(run), status: run.status };
  const result = await runResult(engine, run);
  switch (run.status) {
    case "interrupted":
      return run.waitsFor === "approval" ? asking(engine, run, result) : failed("The run was cancelled", ids);
    case "error":
    case "timeout": {
      const { error, message } = (result as { __error__: { error: string; message: string } }).__error__;
      return failed(`${error}: ${message}`, ids);
    }
    case "success": {
      const early = endedBy(run);
      return answered(result, early === null ? ids : { ...ids, ended_by: early });
    }
    case "pending":
    case "running":
      throw new Error(`run ${run.runId} has not ended`);
  }
}

/** No failure, and no answer yet: who decides does it over the API, and the run goes on from there. */
async function asking(engine: Engine, run: RunOfThread, result: unknown): Promise<CallToolResult> {
  const approvals = await pendingApprovals(engine.deps.db, run);
  const { __interrupt__: interrupts = [] } = (result ?? {}) as { __interrupt__?: unknown };
  const told = {
    status: "interrupted",
    message: "The agent has stopped to ask a person, and goes on once it is answered; don't call it again for this.",
    ...idsOf(run),
    interrupts,
    answer_with: [
      ...approvals.map(({ approvalId }) => `POST /v1/approvals/${approvalId}/decide {"value": …}`),
      `POST /threads/${run.threadId}/runs/wait {"assistant_id": "${run.assistantId}", "command": {"resume": …}}`,
    ],
  };
  return answered(told, { ...idsOf(run), status: run.status });
}
