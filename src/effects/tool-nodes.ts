// LangGraph's and langchain's own tool nodes, in graphs as their authors wrote them: each call that they make is written down. They
// are found in compiled graphs by what they can do, since a project has its own copy of the libraries.
import type { EffectKind } from "./effect.js";
import type { CallConfig } from "./identity.js";
import { DURABLE_TOOL, journaledCall } from "./journaled-call.js";

type Tool = Readonly<{ name: string; [DURABLE_TOOL]?: EffectKind }>;
type Call = Readonly<{ name: string; id?: string; args: unknown }>;
type RunTool = (call: Call, config: CallConfig | undefined, ...rest: readonly unknown[]) => Promise<unknown>;
type ToolNode = {
  readonly tools: readonly Tool[];
  runTool: RunTool;
  /** Of langchain's: middleware, which may bring tools that the node doesn't have. */
  readonly wrapToolCall?: unknown;
  readonly [JOURNALED]?: true;
};

const JOURNALED = Symbol.for("perdure.journaled_tool_node");

/** Lets every tool node of the graph, and of graphs in it, write down its calls. A node that can't be changed is left as it is. */
export function journalToolNodes(graph: object): void {
  for (const node of toolNodesOf(graph)) if (node[JOURNALED] !== true && Object.isExtensible(node)) journal(node);
}

/** Tools of nodes whose calls are not written down: nodes of another make, or that can't be changed. */
export function unwrittenToolsOf(graph: object): readonly string[] {
  const others = runnablesOf(graph).filter(isOfTools);
  return others.flatMap(({ tools, [JOURNALED]: isWritten = false }) =>
    tools.flatMap((tool) => (isWritten || DURABLE_TOOL in tool ? [] : [tool.name])),
  );
}

/** A runnable that holds tools to call: a graph of tools writes down its calls by itself. */
function isOfTools(value: object): value is Pick<ToolNode, "tools" | typeof JOURNALED> {
  const {
    tools,
    invoke,
    lg_is_pregel: isGraph,
  } = value as Partial<ToolNode> & { invoke?: unknown; lg_is_pregel?: unknown };
  if (!Array.isArray(tools) || typeof invoke !== "function" || isGraph === true) return false;
  return tools.every(
    (tool: unknown) => typeof (tool as Partial<Tool> | null)?.name === "string" && "invoke" in (tool as Tool),
  );
}

/** The declared tools of its nodes that do something outside. */
export function effectToolsOf(graph: object): readonly Readonly<{ name: string; effect: EffectKind }>[] {
  const tools = runnablesOf(graph).flatMap((each) => (each as { tools?: unknown }).tools ?? []) as (Tool | null)[];
  return tools.flatMap((tool) => {
    const { name = "", [DURABLE_TOOL]: effect = "none" as const } = tool ?? {};
    return effect === "none" ? [] : [{ name, effect }];
  });
}

function journal(node: ToolNode): void {
  const runTool = node.runTool.bind(node);
  const journaled: RunTool = (call, config, ...rest) => {
    const brought = typeof node.wrapToolCall === "function" ? {} : undefined;
    const tool = node.tools.find(({ name }) => name === call.name) ?? brought;
    return journaledCall(config ?? {}, { ...call, tool }, (own) => runTool(call, own, ...rest));
  };
  Object.defineProperties(node, {
    runTool: { value: journaled, configurable: true, writable: true },
    [JOURNALED]: { value: true },
  });
}

function toolNodesOf(graph: object): ToolNode[] {
  return runnablesOf(graph).filter(isToolNode);
}

function runnablesOf(graph: object): object[] {
  const found = new Set<object>([graph]);
  // A set that grows is gone through to its end.
  for (const each of found) for (const inner of insideOf(each)) found.add(inner);
  return [...found];
}

function isToolNode(value: object): value is ToolNode {
  const { tools, runTool } = value as Partial<ToolNode>;
  return Array.isArray(tools) && typeof runTool === "function";
}

/** Where runnables keep what they run: graphs, sequences and maps, bindings and retries, fallbacks, branches. */
function insideOf(value: object): object[] {
  const {
    nodes,
    subgraphs,
    bound,
    steps,
    runnable,
    fallbacks,
    branches,
    default: otherwise,
    graph,
  } = value as Record<string, unknown>;
  const isGraph = (value as { lg_is_pregel?: unknown }).lg_is_pregel === true;
  const parts = [
    isGraph ? nodes : undefined,
    subgraphs,
    steps,
    fallbacks,
    Array.isArray(branches) ? branches.flat() : undefined,
  ];
  const many = parts.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
  return [...many, bound, runnable, otherwise, graph].filter((part) => typeof part === "object" && part !== null);
}
