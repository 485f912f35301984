// What must be true of conversations that many wrote to at a time: nobody's message is lost, doubled or overtaken, and runs that made
// way for others did so only where somebody asked for it.
import type { Db } from "../../../src/core/deps.js";
import type { Said } from "./graphs/chat.js";
import type { Conversation, Turn } from "./clients.js";
import { get, persistently } from "./requests.js";

export type Talk = Readonly<{
  turns: number;
  refused: number;
  merged: number;
  interrupted: number;
  takenBack: number;
  wrong: string[];
}>;

export async function judgeConversations(db: Db, url: string, all: readonly Conversation[]): Promise<Talk> {
  const { rows } = await db.query<{ id: string; status: string }>("select run_id as id, status from runs");
  const statuses = new Map(rows.map(({ id, status }) => [id, status]));
  const wrong: string[] = [];
  const counts = { turns: 0, refused: 0, merged: 0, interrupted: 0, takenBack: 0 };
  for (const { threadId, turns } of all) {
    if (!turns.some(({ runId }) => typeof runId === "string")) continue;
    const messages = await messagesOf(`${url}/threads/${threadId}/state`);
    const fates = turns.map(({ runId }) => (typeof runId === "string" ? (statuses.get(runId) ?? "gone") : runId));
    turns.forEach((turn, i) => {
      const complaint = complaintOf(turn, fates[i], turns.slice(i + 1), messages);
      if (complaint !== null) wrong.push(`${turn.said} (${turn.strategy}, run ${turn.runId}) ${complaint}`);
    });
    const places = turns.map(({ said }) => messages.findIndex(isOf("human", said))).filter((place) => place >= 0);
    if (places.some((place, i) => place < (places[i - 1] ?? 0)))
      wrong.push(`${threadId}: messages overtook each other`);
    const runs = turns.flatMap(({ runId }) => runId ?? []);
    counts.turns += turns.length;
    counts.refused += turns.filter(({ runId }) => runId === null).length;
    counts.merged += runs.length - new Set(runs).size;
    counts.interrupted += fates.filter((fate) => fate === "interrupted").length;
    counts.takenBack += fates.filter((fate) => fate === "gone").length;
  }
  return { ...counts, wrong };
}

/** The API process may have been killed a moment ago. */
async function messagesOf(url: string): Promise<readonly Said[]> {
  type State = Readonly<{ values: Readonly<{ messages?: readonly Said[] }> }>;
  const state = await persistently(AbortSignal.timeout(60_000), () => get<State>(url));
  if (state === undefined) throw new Error(`nobody answers at ${url}`);
  return state.values.messages ?? [];
}

const isOf = (role: Said["role"], said: string) => (message: Said) => message.role === role && message.content === said;

/** `fate`: what its run is now, null when it was refused, undefined when nobody knows of any. */
function complaintOf(
  { said, ended }: Turn,
  fate: string | null | undefined,
  later: readonly Turn[],
  messages: readonly Said[],
): string | null {
  const [times, answered] = (["human", "ai"] as const).map((role) => messages.filter(isOf(role, said)).length) as [
    number,
    number,
  ];
  const wasAsked = (strategy: Turn["strategy"]) =>
    later.some((turn) => turn.strategy === strategy && turn.runId !== null);
  if (times > 1 || answered > times) return `is there ${times} times, and answered ${answered} times`;
  if (ended !== undefined && ended !== fate) return `ended with ${ended} and is ${fate} now`;
  switch (fate) {
    case null:
      return times > 0 ? "was refused, and is there" : null;
    case "gone":
      if (!wasAsked("rollback")) return "is gone, and nobody asked for that";
      return times > 0 ? "was taken back, and is there" : null;
    case "success":
      return times + answered === 2 ? null : `succeeded, and is there ${times} times and answered ${answered} times`;
    case "interrupted":
      return wasAsked("interrupt") ? null : "was interrupted, and nobody asked for that";
    case undefined:
    default:
      // Its client never heard of it, or it was given up after three crashes that were not its own.
      return null;
  }
}
