// A research pipeline: plan topics, look into each at the same time in a subgraph, check the sources, write a report.
// A source without a year stops it at check_sources. That can be debugged: fork from the checkpoint before, with the
// finding corrected. Try it: "Why do otters hold hands, and what does folklore say?"
import { type BaseMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { Annotation, END, Send, START, StateGraph } from "@langchain/langgraph";
import { chooseModel } from "./model.js";
import type { Reply } from "./scripted-model.js";

/** `year` is null when the source does not say. */
export type Finding = Readonly<{ source: string; year: number | null; claim: string }>;
type Findings = Readonly<Record<string, Finding>>;

/** Each branch adds its own topic; an edit of one topic replaces just that one. */
const findings = Annotation<Findings>({ reducer: (all, some) => ({ ...all, ...some }), default: () => ({}) });

const Research = Annotation.Root({
  question: Annotation<string>,
  topics: Annotation<string[]>,
  findings,
  report: Annotation<string>,
});
const Topic = Annotation.Root({ topic: Annotation<string>, source: Annotation<Omit<Finding, "claim">>, findings });

const model = await chooseModel("research", researchScript);

// The subgraph: one topic, in two steps.
const investigation = new StateGraph(Topic)
  .addNode("search", async ({ topic }) => ({ source: findSource(topic) }))
  .addNode("assess", async ({ topic, source }) => {
    const answer = await model.invoke([new SystemMessage("assess"), new HumanMessage(topic)]);
    return { findings: { [topic]: { ...source, claim: answer.text } } };
  })
  .addEdge(START, "search")
  .addEdge("search", "assess")
  .addEdge("assess", END)
  .compile();

export const graph = new StateGraph(Research)
  .addNode("plan", async ({ question }) => {
    const answer = await model.invoke([new SystemMessage("plan: name topics, one a line"), new HumanMessage(question)]);
    return { topics: answer.text.split("\n").flatMap((line) => line.trim() || []) };
  })
  .addNode("investigate", investigation)
  .addNode("check_sources", async (state) => {
    for (const [topic, finding] of Object.entries(state.findings)) {
      if (finding.year === null) {
        throw new Error(`The source on "${topic}" has no year. Set findings.${topic}.year and go on from here.`);
      }
    }
    return {};
  })
  .addNode("write_report", async (state) => {
    const facts = Object.values(state.findings).map(({ claim, source, year }) => `${claim} (${source}, ${year})`);
    const answer = await model.invoke([new SystemMessage("report"), new HumanMessage(facts.join("\n"))]);
    return { report: answer.text };
  })
  .addEdge(START, "plan")
  .addConditionalEdges("plan", ({ topics }) => topics.map((topic) => new Send("investigate", { topic })), [
    "investigate",
  ])
  .addEdge("investigate", "check_sources")
  .addEdge("check_sources", "write_report")
  .addEdge("write_report", END)
  .compile();

/** A small library; what it has on folklore was printed without a year. */
function findSource(topic: string): Omit<Finding, "claim"> {
  if (topic === "folklore") return { source: "Tales of the Coast", year: null };
  return { source: `Handbook of ${topic}`, year: 2019 };
}

function researchScript(conversation: readonly BaseMessage[]): Reply {
  const task = conversation[0]?.text ?? "";
  const text = conversation[1]?.text ?? "";
  if (task.startsWith("plan")) {
    return { text: text.includes("folklore") ? "biology\nbehaviour\nfolklore" : "biology\nbehaviour" };
  }
  if (task === "assess") return { text: `There is a good answer in ${text}` };
  return { text: `Report.\n${text}` };
}
