// The setting "followups" of a graph: the four tools of follow-ups are its own, without a line of its code changed. An agent of createAgent
// is made again with them, by its own class. Any other graph calls a model that its author's code has bound to tools, out of our reach: it
// has them already, or is refused when it is loaded, rather than seeming to have them.
import { effectToolsOf } from "../effects/tool-nodes.js";
import { followupTools } from "./followup-tools.js";

type Named = Readonly<{ name?: unknown }>;
type AgentOptions = Readonly<{
  model?: unknown;
  tools?: readonly Named[];
  middleware?: readonly Readonly<{ tools?: readonly Named[] }>[];
}>;
/** An agent of createAgent, known by what it can do: a project has its own copy of langchain. */
type Agent = { options: AgentOptions; withConfig(config: object): Agent };

const HOW =
  'has "followups": true, and its tools are bound in its code: give `...followupTools` of perdure/tools to its model and its tool node, or export what createAgent returned';

/** The agent with the tools that it doesn't have yet; what is no agent comes back as it is. */
export function withFollowups(value: unknown): unknown {
  if (!isAgent(value)) return value;
  const made = known.get(value) ?? remade(value);
  known.set(value, made);
  return made;
}

/** What keeps the graph from following up; null when it has the tools. */
export function lacksFollowups(graph: object): string | null {
  const has = new Set(effectToolsOf(graph).map(({ name }) => name));
  const lacking = followupTools.filter(({ name }) => !has.has(name)).map(({ name }) => name);
  return lacking.length === 0 ? null : `${HOW} (without it: ${lacking.join(", ")})`;
}

/** A factory may give the same agent again and again. */
const known = new WeakMap<Agent, Agent>();

function remade(agent: Agent): Agent {
  const { options } = agent;
  const own = [...(options.tools ?? []), ...(options.middleware ?? []).flatMap(({ tools = [] }) => tools)];
  const names = new Set(own.map(({ name }) => name));
  const added = followupTools.filter(({ name }) => !names.has(name));
  // `withConfig` makes an agent of its options and of defaults that it keeps to itself. Nothing else sees them in between.
  agent.options = { ...options, tools: [...(options.tools ?? []), ...added] };
  try {
    return agent.withConfig({});
  } finally {
    agent.options = options;
  }
}

function isAgent(value: unknown): value is Agent {
  if (typeof value !== "object" || value === null) return false;
  const { options, withConfig, graph } = value as Partial<Agent> & Readonly<{ graph?: unknown }>;
  const hasModel = typeof options === "object" && "model" in options;
  return hasModel && typeof withConfig === "function" && typeof graph === "object";
}
