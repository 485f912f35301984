// Says "I'll get back to you" and does: in six weeks, by a check of a few seconds and an answer. Its second version, which a deploy brings,
// says who answered.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { scheduleFollowup } from "perdure/tools";

const CHECK_MS = 1_500;

type State = Readonly<{ messages: BaseMessage[] }>;
const isDue = ({ messages }: State): boolean => messages.at(-1)?.additional_kwargs["followup"] === true;

function answer({ messages }: State): Readonly<{ messages: BaseMessage[] }> {
  const last = messages.at(-1);
  if (last?.getType() === "tool") return { messages: [new AIMessage("I'll get back to you.")] };
  if (last?.text !== "later") return { messages: [new AIMessage(`You said ${last?.text}.`)] };
  const args = { about: "the renewal", instruction: "Check it", mode: "work", when: { in: "P6W" } };
  return { messages: [new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "schedule_followup", args }] })] };
}

export const promiserOf = (version: string) =>
  new StateGraph(MessagesAnnotation)
    .addNode("answer", answer)
    .addNode("tools", new ToolNode([scheduleFollowup]))
    .addNode("check", async () => {
      appendFileSync(process.env["CHECKS"] ?? "/dev/null", "check\n");
      await sleep(CHECK_MS);
      return {};
    })
    .addNode("conclude", () => ({ messages: [new AIMessage(`It was renewed, says ${version}.`)] }))
    .addConditionalEdges(START, (state) => (isDue(state) ? "check" : "answer"), ["check", "answer"])
    .addConditionalEdges(
      "answer",
      ({ messages }) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END),
      ["tools", END],
    )
    .addEdge("tools", "answer")
    .addEdge("check", "conclude")
    .compile();

export const promiser = promiserOf("the first version");
export const promiserLater = promiserOf("the second version");
