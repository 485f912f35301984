// Every client's shape of a question and of an answer.
import { expect, test } from "vitest";
import { answerAs, formOf, rejection, shownToClients } from "../../src/engine/hitl.js";

const JS = {
  actionRequests: [{ name: "pay", args: { amount: 5 }, description: "Pay" }],
  reviewConfigs: [{ actionName: "pay", allowedDecisions: ["approve", "edit", "reject"] }],
};
const PYTHON = {
  action_requests: [{ name: "pay", args: { amount: 5 } }],
  review_configs: [{ action_name: "pay", allowed_decisions: ["approve"] }],
};
const INBOX = [
  { action_request: { action: "pay", args: { amount: 5 } }, config: { allow_accept: true }, description: "?" },
];

test("a question of LangChain's middleware has the names of every client, whichever casing it was asked in", () => {
  for (const question of [JS, PYTHON]) {
    const shown = shownToClients(question) as Record<string, readonly unknown[]>;
    expect(shown.actionRequests).toEqual(shown.action_requests);
    expect(shown.action_requests?.[0]).toMatchObject({ name: "pay", args: { amount: 5 }, arguments: { amount: 5 } });
    expect(shown.reviewConfigs).toEqual(shown.review_configs);
    expect(shown.review_configs?.[0]).toMatchObject({ actionName: "pay", action_name: "pay" });
    expect(shown.review_configs?.[0]).toHaveProperty("allowed_decisions");
    expect(shown.review_configs?.[0]).toHaveProperty("allowedDecisions");
  }
});

test("any other question is shown as it is", () => {
  for (const question of [INBOX, "Pay?", null, 5, { question: "Pay?" }])
    expect(shownToClients(question)).toBe(question);
});

test("the form of a question is known", () => {
  expect(formOf(JS)).toEqual({ form: "langchain", actions: 1 });
  expect(formOf(PYTHON)).toEqual({ form: "langchain", actions: 1 });
  expect(formOf(INBOX)).toEqual({ form: "agent_inbox", actions: 1 });
  expect(formOf(INBOX[0])).toEqual({ form: "agent_inbox", actions: 1 });
  expect(formOf({ kind: "approval", question: "Pay?" })).toEqual({ form: "approve", actions: 1 });
  for (const question of ["Pay?", null, [], undefined]) expect(formOf(question).form).toBe("other");
});

test("an edit goes in both casings", () => {
  const action = { name: "pay", args: { amount: 4 } };
  const both = { decisions: [{ type: "edit", editedAction: action, edited_action: action }] };
  expect(answerAs("langchain", { decisions: [{ type: "edit", edited_action: action }] })).toEqual(both);
  expect(answerAs("langchain", { decisions: [{ type: "edit", editedAction: action }] })).toEqual(both);
});

test("Agent Inbox's answers become decisions where LangChain's middleware asked", () => {
  const args = { action: "pay", args: { amount: 4 } };
  const action = { name: "pay", args: { amount: 4 } };
  expect(
    answerAs("langchain", [
      { type: "accept", args: null },
      { type: "ignore", args: null },
      { type: "response", args: "too much" },
      { type: "edit", args },
    ]),
  ).toEqual({
    decisions: [
      { type: "approve" },
      { type: "reject" },
      { type: "reject", message: "too much" },
      { type: "edit", editedAction: action, edited_action: action },
    ],
  });
  expect(answerAs("langchain", { type: "accept", args: null })).toEqual({ decisions: [{ type: "approve" }] });
});

test("answers to other questions, and answers in no known shape, go to the graph as they came", () => {
  const inbox = [{ type: "accept", args: null }];
  expect(answerAs("agent_inbox", inbox)).toBe(inbox);
  for (const answer of ["yes", true, null, { anything: 1 }, [1, 2]]) expect(answerAs("langchain", answer)).toBe(answer);
});

test("a rejection has the shape its question takes, one for each action", () => {
  expect(rejection({ form: "langchain", actions: 2 }, "late")).toEqual({
    decisions: [
      { type: "reject", message: "late" },
      { type: "reject", message: "late" },
    ],
  });
  expect(rejection({ form: "agent_inbox", actions: 1 }, "late")).toEqual([{ type: "ignore", args: null }]);
  expect(rejection({ form: "approve", actions: 1 }, "late")).toEqual({ type: "reject", message: "late" });
});
