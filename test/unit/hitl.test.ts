// Every client's shape of a question and of an answer.
import { expect, test } from "vitest";
import { POLICY } from "../../src/core/approval.js";
import { allowedDecisions, answerAs, askedOnce, formOf, rejection, shownToClients } from "../../src/engine/hitl.js";

const JS = {
  actionRequests: [{ name: "pay", args: { amount: 5 }, description: "Pay" }],
  reviewConfigs: [{ actionName: "pay", allowedDecisions: ["approve", "edit", "reject"] }],
};
const ONE = { form: "langchain", actions: 1 } as const;
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
  expect(formOf({ kind: "approval", question: "Pay?", [POLICY]: {} })).toEqual({ form: "approve", actions: 1 });
  for (const question of ["Pay?", null, [], undefined, { kind: "approval", question: "of somebody's own" }])
    expect(formOf(question).form).toBe("other");
});

test("an edit goes in both casings", () => {
  const action = { name: "pay", args: { amount: 4 } };
  const both = { decisions: [{ type: "edit", editedAction: action, edited_action: action }] };
  expect(answerAs(ONE, { decisions: [{ type: "edit", edited_action: action }] })).toEqual(both);
  expect(answerAs(ONE, { decisions: [{ type: "edit", editedAction: action }] })).toEqual(both);
});

test("Agent Inbox's answers become decisions where LangChain's middleware asked", () => {
  const args = { action: "pay", args: { amount: 4 } };
  const action = { name: "pay", args: { amount: 4 } };
  expect(
    answerAs({ form: "langchain", actions: 4 }, [
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
  expect(answerAs(ONE, { type: "accept", args: null })).toEqual({ decisions: [{ type: "approve" }] });
});

test("decisions that LangChain's middleware would fail on are refused, and say what it takes", () => {
  const edit = (fields: object) => [{ type: "edit", ...fields }];
  const bad = [[], [{ type: "approve" }, { type: "approve" }], [{ type: "dance" }], ["approve"], [null], [{}]];
  for (const decisions of [
    ...bad,
    edit({}),
    edit({ editedAction: { name: "pay" } }),
    edit({ editedAction: { args: {} } }),
  ])
    expect(() => answerAs(ONE, { decisions }), JSON.stringify(decisions)).toThrow("This question takes 1 decision(s)");
  expect(() => answerAs({ form: "langchain", actions: 2 }, [{ type: "accept", args: null }])).toThrow(
    "takes 2 decision(s)",
  );
});

test("what may be decided of each action is by its name, in either casing, and only words that are known", () => {
  const of = (names: readonly string[], configs: readonly object[]) =>
    allowedDecisions({ actionRequests: names.map((name) => ({ name })), reviewConfigs: configs });
  expect(allowedDecisions(JS)).toEqual([["approve", "edit", "reject"]]);
  expect(allowedDecisions(PYTHON)).toEqual([["approve"]]);
  const mail = { actionName: "mail", allowedDecisions: ["approve", "a secret"] };
  expect(of(["pay", "mail", "mail"], [mail])).toEqual([null, ["approve"], ["approve"]]);
  for (const question of [of(["pay"], [mail]), allowedDecisions("Pay?"), allowedDecisions(INBOX)])
    expect(question).toBeNull();
});

test("a decision that its action doesn't take is refused by its path, in whatever shape it came", () => {
  const asked = { form: "langchain", actions: 2, policy: { allowed: [null, ["approve", "reject"]] } } as const;
  const edit = { type: "edit", editedAction: { name: "pay", args: {} } };
  expect(() => answerAs(asked, { decisions: [edit, edit] })).toThrow(
    "decisions[1].type: this action takes approve, reject",
  );
  const inbox = [
    { type: "accept", args: null },
    { type: "edit", args: { action: "pay", args: {} } },
  ];
  expect(() => answerAs(asked, inbox)).toThrow("[1].type");
  expect(() => answerAs(asked, { decisions: [edit, { type: "reject" }] })).not.toThrow();
});

test("a question that several tasks ask is shown once; those without an id all are", () => {
  const [a, b, none] = [{ id: "a" }, { id: "b" }, { value: 1 }];
  expect(askedOnce([a, b, none, { ...a }, none])).toEqual([a, b, none, none]);
});

test("answers to approve that mean the same are the same, and others are refused", () => {
  const asked = { form: "approve", actions: 1 } as const;
  const same = (answers: readonly unknown[], meant: object) => {
    for (const answer of answers) expect(answerAs(asked, answer), JSON.stringify(answer)).toEqual(meant);
  };
  same([true, "yes", "Approve", { type: "accept", args: null }, [{ type: "accept" }], { approved: true }], {
    type: "approve",
  });
  same([false, "no", "ignore", { type: "reject" }, { approved: false, details: 4 }], { type: "reject" });
  same(
    [
      { type: "edit", details: 4 },
      { approved: true, details: 4 },
    ],
    { type: "edit", details: 4 },
  );
  same(
    [
      { type: "no", message: "too much" },
      { approved: false, message: "too much" },
    ],
    { type: "reject", message: "too much" },
  );
  for (const answer of [
    "later",
    "",
    null,
    1,
    {},
    [],
    { approved: "maybe" },
    { type: "edit" },
    { details: 4 },
    [true, true],
  ])
    expect(() => answerAs(asked, answer), JSON.stringify(answer)).toThrow("it stays open");
});

test("answers to other questions, and answers in no known shape, go to the graph as they came", () => {
  const inbox = [{ type: "accept", args: null }];
  expect(answerAs({ form: "agent_inbox", actions: 1 }, inbox)).toBe(inbox);
  for (const answer of ["yes", true, null, { anything: 1 }, [1, 2]]) expect(answerAs(ONE, answer)).toBe(answer);
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
