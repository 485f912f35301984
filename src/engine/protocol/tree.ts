// The graphs that are at work in a run, by namespace: what each is called and how it stands.

type Fields = Readonly<Record<string, unknown>>;
type Node = Readonly<{ namespace: readonly string[]; status: string; graphName: string }>;

export type TreeNode = Readonly<{
  namespace: readonly string[];
  status: string;
  graph_name: string;
  children?: readonly TreeNode[];
}>;

export type Tree = Readonly<{
  note(namespace: readonly string[], data: Fields): void;
  /** The graphs on the way to this one that nothing is known of. */
  unknown(namespace: readonly string[]): (readonly string[])[];
  /** What is to be said of a graph when it begins. */
  started(namespace: readonly string[]): Readonly<{ event: string; graph_name: string }>;
  /** The subgraphs that have begun and not ended, the innermost first. */
  open(): (readonly string[])[];
  shape(): TreeNode;
}>;

export function createTree(rootName: string): Tree {
  const nodes = new Map<string, Node>();
  const keyOf = (namespace: readonly string[]): string => namespace.join("|");
  const nameOf = (namespace: readonly string[]): string =>
    nodes.get(keyOf(namespace))?.graphName ?? namespace.at(-1)?.split(":", 1)[0] ?? rootName;
  const shapeOf = (namespace: readonly string[]): TreeNode => {
    const inside = [...nodes.values()].filter(
      (node) => node.namespace.length === namespace.length + 1 && isBelow(node.namespace, namespace),
    );
    const children = inside.map((node) => shapeOf(node.namespace));
    return {
      namespace,
      status: nodes.get(keyOf(namespace))?.status ?? "started",
      graph_name: nameOf(namespace),
      ...(children.length > 0 ? { children } : {}),
    };
  };
  return {
    note(namespace, { event, graph_name }) {
      const graphName = typeof graph_name === "string" ? graph_name : nameOf(namespace);
      nodes.set(keyOf(namespace), { namespace, status: String(event), graphName });
    },
    unknown: (namespace) =>
      namespace.map((_segment, i) => namespace.slice(0, i + 1)).filter((ns) => !nodes.has(keyOf(ns))),
    started: (namespace) => ({ event: "started", graph_name: nameOf(namespace) }),
    open: () =>
      [...nodes.values()]
        .filter(({ namespace, status }) => namespace.length > 0 && status === "started")
        .map(({ namespace }) => namespace)
        .sort((a, b) => b.length - a.length),
    shape: () => shapeOf([]),
  };
}

function isBelow(namespace: readonly string[], above: readonly string[]): boolean {
  return above.every((segment, i) => namespace[i] === segment);
}
