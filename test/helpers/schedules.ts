// People who have written in Telegram, kept as contacts, and schedules that write to them: by a clock that moves.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Reached, type ReachedOptions, withTelegram } from "./telegram.js";
import { until } from "./wait.js";

/** Says what it was told; of what a schedule has it work on, that it did. */
export const echo = () =>
  new StateGraph(MessagesAnnotation)
    .addNode("model", ({ messages }: { messages: BaseMessage[] }) => {
      const last = messages.at(-1);
      const isWork = last?.additional_kwargs["followup"] === true;
      return { messages: [new AIMessage(isWork ? `done: ${last?.text}` : `you said ${last?.text}`)] };
    })
    .addEdge(START, "model")
    .addEdge("model", END)
    .compile();

export type Scheduled = Reached &
  Readonly<{
    /** Somebody writes in chat `chatId`, and is kept as a contact. The id of the contact. */
    person(key: string, chatId: number, more?: object): Promise<string>;
    /** The schedule's id. */
    schedule(more: object): Promise<string>;
    /** Moves the clock to an instant and fires what is due by it. */
    at(instant: string | Date): Promise<void>;
    /** Fires what is due until nothing is. */
    settle(): Promise<void>;
    now(): Promise<Date>;
    occurrences(scheduleId: string): Promise<Record<string, unknown>[]>;
    conversationOf(chatId: number): Promise<string>;
  }>;

const BASE = { about: "news", mode: "remind", time_zone: "UTC", jitter: "PT0S", audience: { where: [] } };

export async function withSchedules<T>(
  options: Partial<ReachedOptions>,
  work: (scheduled: Scheduled) => Promise<T>,
): Promise<T> {
  return withTelegram({ graphs: { agent: echo() }, movable: true, ...options }, async (reached) => {
    const { ask, telegram, texts, deps, fireTimers, advance } = reached;
    const now = async (): Promise<Date> => {
      const { rows } = await deps.db.query<{ now: Date }>("select clock_timestamp() as now");
      return (rows[0] as { now: Date }).now;
    };
    const conversationOf = async (chatId: number): Promise<string> => {
      const { rows } = await deps.db.query<{ id: string }>(
        "select conversation_id as id from conversations where address ->> 'chat_id' = $1",
        [String(chatId)],
      );
      return rows[0]?.id ?? "";
    };
    const settle = async (): Promise<void> => {
      await until("nothing is under way", async () => {
        await fireTimers();
        const { rows } = await deps.db.query(
          `select 1 from runs where status in ('pending', 'running')
          union all
          select 1 from timers where status = 'due' and due_at <= clock_timestamp() and kind ~ '^(schedule|outreach|followup)'`,
        );
        return rows.length === 0;
      });
    };
    return work({
      ...reached,
      now,
      settle,
      conversationOf,
      async person(key, chatId, more = {}) {
        const before = telegram.messages(chatId).length;
        await telegram.says("hello", { chatId });
        await texts(before + 1, chatId);
        const body = { key, conversation_ids: [await conversationOf(chatId)], ...more };
        const { json } = await ask("POST", "/v1/contacts", body);
        return (json as { contact_id: string }).contact_id;
      },
      async schedule(more) {
        const { status, json } = await ask("POST", "/v1/schedules", { ...BASE, name: `s${Math.random()}`, ...more });
        if (status !== 201) throw new Error(JSON.stringify(json));
        return (json as { schedule_id: string }).schedule_id;
      },
      async at(instant) {
        await settle();
        const byMs = new Date(instant).getTime() - (await now()).getTime();
        await advance(Math.max(0, byMs) + 10);
        await settle();
      },
      async occurrences(scheduleId) {
        return (await ask("GET", `/v1/schedules/${scheduleId}/occurrences`)).json as Record<string, unknown>[];
      },
    });
  });
}
