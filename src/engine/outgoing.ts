// What a turn says to the person it is of: the answer of a run that has ended, the questions of one that waits. Pure.
import type { BaseMessage } from "@langchain/core/messages";
import type { OpenInterrupt } from "../checkpoint/pending.js";
import type { Button, Outgoing } from "../core/channel.js";
import { sleepOf } from "./sleep.js";
import { formOf, shownToClients } from "./hitl.js";

/** The answer: the last message, if an assistant has written it and says something in it. */
export function answerIn(values: unknown): Outgoing | undefined {
  const { messages } = (values ?? {}) as Readonly<{ messages?: unknown }>;
  const last = Array.isArray(messages) ? (messages.at(-1) as BaseMessage | undefined) : undefined;
  if (last === undefined || typeof last.getType !== "function" || last.getType() !== "ai") return undefined;
  const { tool_calls: calls = [] } = last as BaseMessage & Readonly<{ tool_calls?: readonly unknown[] }>;
  const text = last.text.trim();
  return text === "" || calls.length > 0 ? undefined : { text };
}

export type AskedThere = Readonly<{ interruptId: string; outgoing: Outgoing }>;

/** Questions as messages; with buttons where a yes or a no answers them. */
export function questionsIn(open: readonly OpenInterrupt[]): AskedThere[] {
  const questions = open.filter(({ value }) => sleepOf(value) === undefined);
  const unique = new Map(questions.map((question) => [question.id, question]));
  return [...unique.values()].map(({ id, value }) => ({ interruptId: id, outgoing: questionOut(id, value) }));
}

function questionOut(interruptId: string, value: unknown): Outgoing {
  const { form } = formOf(value);
  const text = textOf(shownToClients(value));
  if (form === "other") return { text };
  return { text, buttons: buttonsOf(interruptId) };
}

const PRESS = /^ap:([0-9a-f]{32}):([yn])$/;

function buttonsOf(interruptId: string): Button[] {
  return [
    { id: `ap:${interruptId}:y`, label: "Approve", style: "primary" },
    { id: `ap:${interruptId}:n`, label: "Reject", style: "danger" },
  ];
}

/** Which question a pressed button answers, and how; undefined: it is none of ours. */
export function pressed(buttonId: string): Readonly<{ interruptId: string; yes: boolean }> | undefined {
  const [, interruptId, how] = PRESS.exec(buttonId) ?? [];
  return interruptId === undefined ? undefined : { interruptId, yes: how === "y" };
}

type Fields = Readonly<Record<string, unknown>>;

function textOf(question: unknown): string {
  if (typeof question === "string") return question;
  const fields = (typeof question === "object" && question !== null ? question : {}) as Fields;
  const actions = Array.isArray(fields.actionRequests) ? (fields.actionRequests as Fields[]) : [];
  if (actions.length > 0) return actions.map(actionText).join("\n\n");
  const requests = (Array.isArray(question) ? question : [question]) as readonly (Fields | null)[];
  if (requests.every((request) => isFields(request?.["action_request"]))) {
    return requests.map((request) => inboxText(request as Fields)).join("\n\n");
  }
  const asked = fields["question"] ?? fields["message"] ?? fields["description"];
  if (typeof asked !== "string") return fenced(question);
  return fields["details"] === undefined ? asked : `${asked}\n\n${fenced(fields["details"])}`;
}

function actionText({ name, args, description }: Fields): string {
  return typeof description === "string" && description !== ""
    ? description
    : `Approve **${String(name)}**?\n\n${fenced(args)}`;
}

function inboxText({ action_request: request, description }: Fields): string {
  const { action, args } = request as Fields;
  return typeof description === "string" && description !== "" ? description : actionText({ name: action, args });
}

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

function fenced(value: unknown): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;
}
