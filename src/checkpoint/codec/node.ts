// A node: content named by its sha256, with the nodes it names. Content stays text until it is written.
import { createHash } from "node:crypto";
import type { BodyNode } from "../ops.js";

export type Node = Readonly<{
  key: string;
  hash: Buffer;
  kind: 0 | 1 | 2;
  content: string | Buffer;
  children: readonly Node[];
}>;

export function makeNode(kind: 0 | 1, content: string, children: readonly Node[]): Node;
export function makeNode(kind: 2, content: Buffer, children: readonly Node[]): Node;
export function makeNode(kind: 0 | 1 | 2, content: string | Buffer, children: readonly Node[]): Node {
  const hash = createHash("sha256").update(content).digest();
  return { key: hash.toString("base64url"), hash, kind, content, children };
}

/** A node that is stored already, so that its content is not needed any more. */
export function storedNode(key: string): Node {
  return { key, hash: Buffer.from(key, "base64url"), kind: 1, content: "", children: [] };
}

export function bodyNodeOf(node: Node): BodyNode {
  const { key, hash, kind, content } = node;
  const data = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  return { key, hash, kind, refs: keysOf(node.children), data };
}

/** Each key once. */
export function keysOf(nodes: readonly Node[]): string[] {
  return [...new Set(nodes.map((node) => node.key))];
}
