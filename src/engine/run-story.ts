// A run's log in sentences: what happened, when, who did it, how long it took, and what it waits for now. Pure.
import { durationText } from "../core/duration.js";
import { isFinished } from "../core/run.js";
import type { RunRow } from "../runs/runs.js";
import type { LogEntry } from "./run-log.js";

export type Story = Readonly<{
  title: string;
  /** One per thing that happened; steps that follow each other are one. */
  lines: readonly string[];
  /** What it waits for, and what can be done. */
  now: readonly string[];
}>;

/** `now` is the database's time, `open` the questions that wait for an answer. */
export function tellStory(
  run: RunRow,
  log: readonly LogEntry[],
  { now, open }: Readonly<{ now: Date; open: readonly string[] }>,
): Story {
  const lines: string[] = [];
  let before = log[0]?.at ?? run.createdAt;
  for (let i = 0; i < log.length; ) {
    const entries = [log[i] as LogEntry];
    while (entries[0]?.type === "checkpoint.stored" && log[i + entries.length]?.type === "checkpoint.stored")
      entries.push(log[i + entries.length] as LogEntry);
    const last = entries.at(-1) as LogEntry;
    lines.push(`${time(last.at)}  ${gap(last.at, before)}  ${sentence(entries)}`);
    before = last.at;
    i += entries.length;
  }
  if (log.length === 0) lines.push("Nothing of its log is kept.");
  const version = run.agentVersion === null ? "" : `, version ${run.agentVersion}`;
  return {
    title: `Run ${run.runId} of graph "${run.graphId}"${version}, on thread ${run.threadId}`,
    lines,
    now: state(run, open, now),
  };
}

function time(at: Date): string {
  return at.toISOString().replace("T", " ").slice(0, 19);
}

function gap(at: Date, before: Date): string {
  return `+${durationText(at.getTime() - before.getTime())}`.padStart(8);
}

function sentence(entries: readonly LogEntry[]): string {
  const [{ type, attempt, payload: p }] = entries as [LogEntry];
  switch (type) {
    case "checkpoint.stored":
      return steps(entries);
    case "run.created":
      return "accepted";
    case "run.merged":
      return `${say(p.messages)} more came within its window: ${say(p.requests)} requests are one run`;
    case "run.claimed":
      return `worker ${say(p.owner)} begins attempt ${attempt}`;
    case "run.released":
      return p.outcome === "cheaper_model"
        ? "it goes on with the cheaper model"
        : "the worker gave it back: it was stopping, or a store was away";
    case "run.lease_lost":
      return `the worker of attempt ${attempt} died or lost its lease (crash ${say(p.crashes)} without progress)`;
    case "run.sleeping":
      return "it sleeps until its time";
    case "run.retrying":
      return `attempt ${attempt} failed with ${say(p.type)} (${say(p.code)}); failure ${say(p.failures)}, tried again in ${ms(p.after_ms)}`;
    case "run.waiting":
      return `provider ${say(p.provider)} is overloaded or away (${say(p.code)}); looked at again in ${ms(p.after_ms)}`;
    case "run.woken":
      return "it may go on";
    case "run.settled":
      return settled(p);
    case "run.cancelled":
      return `cancelled${p.reason === undefined ? "" : `: ${say(p.reason)}`}`;
    case "run.gave_up":
      return "given up: a person decides";
    case "run.retried":
      return `a person lets run ${say(p.by_run_id)} go on for it`;
    case "run.closed":
      return "a person closed it";
    case "budget.exceeded":
      return `the next call of a model doesn't fit into the budget of the ${say(p.scope)}: ${say(p.spent)} of ${say(p.limit)} ${say(p.what)}`;
    case "effect.started":
      return `calls ${say(p.tool)}${Number(p.calls) > 1 ? `, time ${say(p.calls)}` : ""}`;
    case "effect.succeeded":
      return `${say(p.tool)} is done`;
    case "effect.failed":
      if (p.error_code === "interrupted") return `${say(p.tool)} asks something`;
      return `${say(p.tool)} was not done${p.error_code === undefined ? "" : ` (${say(p.error_code)})`}`;
    case "effect.unknown":
      return `${say(p.tool)} is in doubt: nobody knows whether it was done (${say(p.error_code)})`;
    case "effect.resolved":
      return `the doubt about ${say(p.tool)} is settled by ${say(p.by)}: ${say(p.how)}`;
    case "approval.asked":
      return `it asks: ${list(p.interrupt_ids)}`;
    case "approval.voted":
      return `${say(p.person)} says ${say(p.decision ?? "something")} to ${say(p.interrupt_id)}`;
    case "approval.decided":
      return `${say(p.decided_by)} decided ${say(p.interrupt_id)}${p.decision === null ? "" : ` (${say(p.decision)})`}; run ${say(p.decided_run_id)} goes on`;
    case "approval.withdrawn":
      return `question ${say(p.interrupt_id)} is withdrawn: ${say(p.reason)}`;
    case "approval.reminded":
      return `whoever may decide is reminded of ${say(p.interrupt_id)}`;
    case "approval.escalated":
      return `others may decide ${say(p.interrupt_id)} as well`;
    case "followup.parked":
      return `what it promised (follow-up ${say(p.followup_id)}) waits until the person writes: nothing arrives there (${say(p.code)})`;
    case "followup.failed":
      return `what it promised (follow-up ${say(p.followup_id)}) came to nothing: ${say(p.status)}${p.reason === null ? "" : `, ${say(p.reason)}`}`;
    default:
      return `${type} ${facts(p)}`.trimEnd();
  }
}

function steps(entries: readonly LogEntry[]): string {
  const [first, last] = [entries[0], entries.at(-1)];
  if (first?.payload.source === "input" && entries.length === 1) return "its input is stored";
  const from = first?.payload.step;
  const to = last?.payload.step;
  return entries.length === 1
    ? `step ${say(to)} is stored`
    : `steps ${say(from)} to ${say(to)} are stored, ${durationText((last?.at.getTime() ?? 0) - (first?.at.getTime() ?? 0))} apart`;
}

function settled({ outcome, type, code }: LogEntry["payload"]): string {
  if (outcome === "interrupted") return "parked: it holds no worker";
  if (outcome === "error") return `failed with ${say(type)} (${say(code)})`;
  return code === undefined ? `ended: ${say(outcome)}` : `ended before its graph did: ${say(outcome)} (${say(code)})`;
}

function state(run: RunRow, open: readonly string[], now: Date): string[] {
  const since = (at: Date | null) => (at === null ? "" : ` for ${durationText(now.getTime() - at.getTime())}`);
  const retry = `perdure runs retry ${run.runId}`;
  if (open.length > 0)
    return [`Now: waits for an answer${since(run.finishedAt ?? run.updatedAt)}. perdure approvals ls`];
  if (run.waitsFor === "person") return [`Now: waits for a person${since(run.finishedAt)}. ${retry}, or close`];
  if (run.waitsFor === "provider") return [`Now: waits for provider ${run.provider}${since(run.updatedAt)}.`];
  if (run.availableAt !== null) return [`Now: waits until ${time(run.availableAt)}.`];
  if (run.status === "pending")
    return [`Now: ${run.head ? "waits for a free worker" : "waits for its thread"}${since(run.updatedAt)}.`];
  if (run.status === "running") {
    const lease = run.leaseExpiresAt === null ? 0 : run.leaseExpiresAt.getTime() - now.getTime();
    const alive =
      lease > 0 ? `its lease is good for ${durationText(lease)}` : "its lease is over: another worker takes it soon";
    return [`Now: attempt ${run.attempt} runs on worker ${run.leaseOwner}; ${alive}.`];
  }
  const took =
    run.finishedAt === null
      ? ""
      : `, ${durationText(run.finishedAt.getTime() - run.createdAt.getTime())} after it was accepted`;
  const again = run.status === "error" && isFinished(run.status) ? ` ${retry}` : "";
  return [`Now: over (${run.cancelReason === null ? run.status : "cancelled"})${took}.${again}`];
}

function say(value: unknown): string {
  // Names come from people and graphs: nothing of them may move the cursor.
  return String(value ?? "-").replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}

function list(value: unknown): string {
  return Array.isArray(value) ? value.map(say).join(", ") : say(value);
}

function ms(value: unknown): string {
  return typeof value === "number" ? durationText(value) : say(value);
}

function facts(payload: LogEntry["payload"]): string {
  return Object.entries(payload)
    .map(([name, value]) => `${name}=${list(value)}`)
    .join(" ");
}
