// What may not have reached a person, or certainly didn't, is said to the agent with the person's next message, once: then it can say it
// again in words. A message of its own before theirs, marked as none of the person's; not as a system message, which models take
// at the beginning only.
import type { Sql } from "../../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { takeUnheard, type Unheard } from "../../delivery/deliveries.js";
import type { RunRequest } from "./request.js";

/** The request with the note, where there is something to say and it brings messages; in the caller's transaction. */
export async function withNote(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
  request: RunRequest,
  runId: RunId,
): Promise<RunRequest> {
  const { messages } = (request.input ?? {}) as Readonly<{ messages?: readonly unknown[] }>;
  if (messages === undefined) return request;
  const unheard = await takeUnheard(sql, of);
  if (unheard.length === 0) return request;
  const note = {
    ...{ type: "human", id: `note:${runId}`, content: noteText(unheard) },
    additional_kwargs: { delivery_note: true },
  };
  return { ...request, input: { ...(request.input as object), messages: [note, ...messages] } };
}

function noteText(unheard: readonly Unheard[]): string {
  const lines = unheard.map(({ at, status, parts, lost }) => {
    const what = parts === lost ? "your message" : `${lost} of ${parts} parts of your message`;
    const how = status === "unknown" ? "may not have reached the person" : "did not reach the person";
    return `${what} of ${at.toISOString().slice(0, 16).replace("T", " ")} UTC ${how}`;
  });
  return `[A note from the system, not from the person: ${lines.join("; ")}.]`;
}
