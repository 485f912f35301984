// What must become of a life that was cut short, by what its ledger said when the process had died: the rules for effects.
import type { Ended, Left } from "./live.js";
import type { Policy } from "./life.js";

const WHOLE = ["ai", "tool", "ai"];

/** A life that came to its end at once. */
export const NOT_KILLED: Left = { ledger: "succeeded", done: 1, asked: 1, openModelCalls: 0 };

/** A life that was cut off in the middle of its call may do it again only as the policy says; any other does it exactly once. */
export function expectedEnd(policy: Policy, left: Left): Ended {
  const modelCalls = 2 + left.openModelCalls;
  const well = { left: null, run: "success", thread: "idle", questions: 1, done: 1, modelCalls, messages: WHOLE };
  if (left.ledger !== "started") return { ...well, asked: 1 };
  // Found out by whoever is asked: it is made again only if it wasn't done.
  const asked = left.done > 0 ? left.asked : left.asked + 1;
  switch (policy) {
    case "ask":
    case "undeclared-ask":
      return { ...well, questions: 2, asked };
    case "lookup":
      return { ...well, asked };
    case "retry":
    case "undeclared-retry":
      return { ...well, asked: left.asked + 1 };
    case "fail":
      return {
        ...well,
        ...{ run: "error", thread: "error", messages: ["ai"], modelCalls: modelCalls - 1 },
        ...{ done: left.done, asked: left.asked },
      };
    case "local":
      throw new Error("a local effect is never found started: its row comes with its work");
  }
}

/** In words, for the table. */
export function outcomeOf({ run, questions, done, asked, left }: Ended): string {
  if (left === null) return "not killed";
  const times = `done ${done === 1 ? "once" : `${done} times`}`;
  if (run === "error") return `error, ${times}`;
  if (questions > 1) return `asked, ${times}`;
  return asked > left.asked && left.asked > 0 ? `called again, ${times}` : times;
}
