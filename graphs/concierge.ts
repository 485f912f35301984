// A concierge: what takes minutes or is for another day it promises, and gets back to the guest where they asked. The four tools of
// perdure/tools are all it takes for that: none of them knows an address.
// Try it: "Can you get me a table at Da Mario?", "Get back to me on Tuesday about the late check-out.", "Forget what you promised."
import { setTimeout as sleep } from "node:timers/promises";
import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createAgent, dynamicSystemPromptMiddleware, tool } from "langchain";
import { followupTools } from "perdure/tools";
import { z } from "zod";
import { logCall } from "./call-log.js";
import { chooseModel } from "./model.js";
import type { Reply } from "./scripted-model.js";

/** A restaurant takes its time to answer: RESTAURANT_MS, two minutes unless set. */
const askRestaurant = tool(
  async ({ restaurant }: { restaurant: string }) => {
    const answered = logCall("restaurant: ask for a table");
    await sleep(Number(process.env["RESTAURANT_MS"] ?? 120_000));
    answered();
    return `${restaurant} has a table for two at 20:00`;
  },
  {
    name: "ask_restaurant",
    description: "Asks a restaurant for a table tonight. Takes some minutes: schedule a follow-up to do it in",
    schema: z.object({ restaurant: z.string() }),
  },
);

export const agent = createAgent({
  model: await chooseModel("concierge", conciergeScript),
  tools: [askRestaurant, ...followupTools],
  middleware: [
    dynamicSystemPromptMiddleware(
      () =>
        `You are the concierge of a small hotel. It is ${new Date().toUTCString()}. Never let a guest wait for what takes minutes: schedule a follow-up of mode work, say that you will get back to them, and do it then.`,
    ),
  ],
});

const DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/** Promise, and keep it when the follow-up asks for it. */
function conciergeScript(conversation: readonly BaseMessage[]): Reply {
  const last = conversation.at(-1);
  if (last !== undefined && ToolMessage.isInstance(last)) return afterTool(last);
  const text = last?.text ?? "";
  const restaurant = /table at ([\w ]+?)(?:[?.!,]|$)/.exec(text)?.[1];
  if (last !== undefined && isFollowup(last)) {
    if (restaurant !== undefined) return { text: "", toolCalls: [{ name: "ask_restaurant", args: { restaurant } }] };
    return { text: `As promised: ${text.replace(/^.*Find out about /, "")} is arranged.` };
  }
  if (/forget/i.test(text)) return { text: "", toolCalls: [{ name: "list_followups", args: {} }] };
  if (restaurant !== undefined) {
    const about = `a table at ${restaurant}`;
    return promiseOf({ about, instruction: `Ask for ${about}, and tell the guest`, when: { in: "PT5S" } });
  }
  const [, day, about = "what you asked"] =
    /\bon (\w+day)\b(?:.*?\babout ([\w -]+))?/i.exec(text) ?? ([] as (string | undefined)[]);
  if (day !== undefined && DAYS.includes(day.toLowerCase())) {
    return promiseOf({ about, instruction: `Find out about ${about}`, when: { at: nextNine(day), weekday: day } });
  }
  return { text: "Good day! I find tables, and I get back to you on any day of the week." };
}

function afterTool({ name, text }: ToolMessage): Reply {
  if (name === "ask_restaurant") return { text: `${text}. I have booked it for you.` };
  if (name === "cancel_followup") return { text: "As you wish: you won't hear of it any more." };
  const said = JSON.parse(text) as { error?: string; firesAtLocal?: string } | { id: string }[];
  if (Array.isArray(said)) {
    const toolCalls = said.map(({ id }) => ({ name: "cancel_followup", args: { id } }));
    return toolCalls.length === 0 ? { text: "There is nothing that I promised." } : { text: "", toolCalls };
  }
  if (said.error !== undefined) return { text: `I can't promise that: ${said.error}` };
  return { text: `I'll get back to you here, on ${said.firesAtLocal} or a little later.` };
}

function promiseOf(args: Readonly<{ about: string; instruction: string; when: object }>): Reply {
  return { text: "", toolCalls: [{ name: "schedule_followup", args: { ...args, mode: "work" } }] };
}

const isFollowup = (message: BaseMessage): boolean =>
  HumanMessage.isInstance(message) && message.additional_kwargs["followup"] === true;

/** Nine in the morning, on the next day of that name. */
function nextNine(day: string): string {
  const date = new Date();
  const ahead = (DAYS.indexOf(day.toLowerCase()) - date.getUTCDay() + 7) % 7 || 7;
  date.setUTCDate(date.getUTCDate() + ahead);
  return `${date.toISOString().slice(0, 10)}T09:00`;
}
