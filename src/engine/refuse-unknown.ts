// A run that names a node or a checkpoint that isn't there is refused before it is accepted: LangGraph itself ignores
// such a node and starts from nothing at such a checkpoint, and the run would end in success.
import { checkpointExists } from "../checkpoint/queries.js";
import { EngineError } from "../core/errors.js";
import { nearest } from "../core/nearest.js";
import { pinOfNext } from "../runs/pins.js";
import { goesOn } from "./commands/layers.js";
import type { CreateRunInput } from "./commands/create-run.js";
import type { RunRequest } from "./commands/request.js";
import type { Engine } from "./engine.js";
import type { Graphs } from "./graphs.js";

/** `also`: a name of LangGraph's own that means something there. `stops`: it is a breakpoint. */
type Named = Readonly<{ path: string; node: string; also: "__start__" | "__end__" | null; stops: boolean }>;

/**
 * Throws `bad_request` with the path in the request, or `not_found` for a checkpoint. Returns the paths of breakpoints that stop nothing:
 * clients give the same ones to any graph.
 */
export async function refuseUnknown(engine: Engine, input: CreateRunInput): Promise<readonly string[]> {
  refuseEdgeBreakpoints(engine, input);
  const idle = await refuseUnknownNodes(engine, input);
  const { tenantId, threadId, request } = input;
  const { checkpoint_id: checkpointId, checkpoint_ns: ns = "" } = request.checkpoint ?? {};
  if (threadId === null || checkpointId === undefined) return idle;
  if (await checkpointExists(engine.deps.db, { tenantId, threadId, ns, checkpointId })) return idle;
  const where = ns === "" ? "" : ` in ${JSON.stringify(ns)}`;
  throw new EngineError("not_found", `Checkpoint ${checkpointId} not found on thread ${threadId}${where}`);
}

/** A run that can't wait can't be stopped at a node. */
function refuseEdgeBreakpoints({ policyOf }: Engine, { assistant, request }: CreateRunInput): void {
  if (policyOf(assistant.graphId).mode !== "edge") return;
  for (const path of ["interrupt_before", "interrupt_after"] as const) {
    if ((request[path] ?? []).length === 0) continue;
    throw new EngineError("bad_request", `${path}: graph "${assistant.graphId}" has mode "edge" and can't wait`);
  }
}

async function refuseUnknownNodes({ deps, graphs }: Engine, input: CreateRunInput): Promise<readonly string[]> {
  const { assistant, request } = input;
  const named = [
    ...gotoNodes(request),
    ...breakpoints("interrupt_before", request.interrupt_before),
    ...breakpoints("interrupt_after", request.interrupt_after),
  ];
  if (named.length === 0) return [];
  const graph = await graphOf(graphs, { assistant, request });
  const nodes = Object.keys(graph.nodes).filter((node) => node !== "__start__");
  const strange = named.filter(({ node, also }) => !nodes.includes(node) && node !== also);
  if (strange.length === 0) return [];
  const pin = await pinOfNext(deps.db, { ...input, ...assistant, goesOn: goesOn(request) });
  // Other code is asked, which may have them.
  if (pin !== "" && pin !== graphs.version(assistant.graphId)) return [];
  // A slip, after which a run would not stop where it was meant to, is refused; a name that is like none here is another graph's.
  const idle = strange.filter(({ stops, node }) => stops && nearest(node.slice(0, 200), nodes) === null);
  const unknown = strange.find((one) => !idle.includes(one));
  if (unknown === undefined) return idle.map(({ path }) => path);
  throw new EngineError("bad_request", `${unknown.path}: ${unknownNode(unknown.node, assistant.graphId, nodes)}`);
}

/** The graph that a run with this request is of, as its factory makes it for it. */
function graphOf({ get }: Graphs, { assistant, request }: Pick<CreateRunInput, "assistant" | "request">) {
  const given = assistant.config.configurable as Readonly<Record<string, unknown>> | undefined;
  const configurable = { ...given, ...request.config.configurable };
  return get(assistant.graphId, { configurable, context: request.context ?? assistant.context });
}

/** The graph of a run that brings an answer, as it is now. */
export async function graphShape(
  { graphs }: Pick<Engine, "graphs">,
  { assistant, request }: Pick<CreateRunInput, "assistant" | "request">,
): Promise<CreateRunInput["graph"]> {
  if (!graphs.has(assistant.graphId)) return null;
  const { nodes } = await graphOf(graphs, { assistant, request });
  return { nodes, version: graphs.version(assistant.graphId) };
}

/** What to say about a name that is none of the graph's nodes. */
export function unknownNode(node: string, graphId: string, nodes: readonly string[]): string {
  const guess = nearest(node.slice(0, 200), nodes);
  const hint = guess === null ? `it has ${nodes.slice(0, 50).join(", ")}` : `did you mean "${guess}"?`;
  return `${JSON.stringify(node.slice(0, 200))} is no node of graph "${graphId}"; ${hint}`;
}

function gotoNodes({ command }: RunRequest): Named[] {
  const goto = command?.goto ?? [];
  return (Array.isArray(goto) ? goto : [goto]).map((target: string | { node: string }, i) => {
    const path = `command.goto${Array.isArray(goto) ? `[${i}]` : ""}`;
    if (typeof target === "string") return { path, node: target, also: "__end__", stops: false };
    return { path: `${path}.node`, node: target.node, also: null, stops: false };
  });
}

function breakpoints(path: string, nodes: RunRequest["interrupt_before"]): Named[] {
  if (nodes === null || nodes === "*" || nodes.includes("*")) return [];
  return nodes.map((node, i) => ({ path: `${path}[${i}]`, node, also: "__start__", stops: true }));
}
