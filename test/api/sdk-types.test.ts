// Each field that the stock client's types let a caller say, in one table: it has an effect, is refused by name, or stays in the client.
// The types are read as they are installed, so that a newer client with a field more, or a method more, fails here.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { threadStreamQuery } from "../../src/api/routes/thread-stream.js";
import * as assistants from "../../src/api/schemas/assistants.js";
import * as crons from "../../src/api/schemas/crons.js";
import * as runs from "../../src/api/schemas/runs.js";
import * as store from "../../src/api/schemas/store.js";
import * as threads from "../../src/api/schemas/threads.js";

const DIST = dirname(createRequire(import.meta.url).resolve("@langchain/langgraph-sdk"));
const ID = "00000000-0000-4000-8000-000000000000";

/** `does`: a value that is taken; `refused`: one that gets 422; `client`: not sent. `as`: its name on the wire, where that isn't its own in snake case. */
type Field = "client" | Readonly<{ does: unknown; as?: string }> | Readonly<{ refused: unknown; as?: string }>;
type Method = Readonly<{ schema: z.ZodType | null; fields: Readonly<Record<string, Field>> }>;
const client: Field = "client";
const does = (sample: unknown, as?: string): Field => (as === undefined ? { does: sample } : { does: sample, as });
const refused = (sample: unknown): Field => ({ refused: sample });

const signal = { signal: client };
const asked: Readonly<Record<string, Field>> = {
  ...signal,
  input: does({ a: 1 }),
  metadata: does({ a: 1 }),
  config: does({ tags: ["t"] }),
  context: does({ a: 1 }),
  checkpointId: does(ID),
  checkpoint: does({ checkpoint_id: ID }),
  checkpointDuring: does(true),
  durability: does("sync"),
  interruptBefore: does("*"),
  interruptAfter: does(["n"]),
  multitaskStrategy: does("rollback"),
  onCompletion: does("keep"),
  webhook: does("https://x.test"),
  onDisconnect: does("cancel"),
  afterSeconds: does(1),
  ifNotExists: does("create"),
  command: does({ resume: 1 }),
  strictResume: does(true),
  onRunCreated: client,
  _langsmithTracer: { refused: { project_name: "p" }, as: "langsmith_tracer" },
  streamMode: does(["values"]),
  streamSubgraphs: does(true),
  streamResumable: does(true),
  feedbackKeys: refused(["k"]),
};
const streamed = { ...asked, streamIdleReconnect: client };
/** Runs without a thread have nothing to go back to. */
const { checkpointId: _id, checkpoint: _checkpoint, ...stateless } = asked;

const assistantSettings = {
  ...signal,
  graphId: does("g"),
  config: does({ configurable: { a: 1 } }),
  context: does({ a: 1 }),
  metadata: does({ a: 1 }),
  name: does("n"),
  description: does("d"),
};
const page = { ...signal, limit: does(5), offset: does(1) };
const sorted = { ...page, sortBy: does("created_at"), sortOrder: does("asc") };

/** What a run is asked but a cron is not: there is nobody who waits, and no thread to go back on. */
const notOfCrons = {
  ...{ checkpointId: client, checkpoint: client, onCompletion: client, onDisconnect: client, afterSeconds: client },
  ...{ ifNotExists: client, command: client, strictResume: client, feedbackKeys: client, _langsmithTracer: client },
};
const { streamMode: _mode, streamSubgraphs: _subgraphs, streamResumable: _resumable, ...invoked } = asked;
const ofCron = { ...invoked, ...notOfCrons };
const { feedbackKeys: _keys, ...ofCronUpdate } = ofCron;
const cronSettings = {
  ...{ schedule: does("0 9 * * *"), timezone: does("UTC"), enabled: does(true), onRunCompleted: does("delete") },
  ...{ streamMode: does(["values"]), streamSubgraphs: does(true), streamResumable: does(true) },
};
const cronCreate = { ...ofCron, ...cronSettings, endTime: does("2030-01-01T00:00:00Z") };

const METHODS: Readonly<Record<string, Method>> = {
  "assistants.get": { schema: null, fields: signal },
  "assistants.getGraph": { schema: null, fields: { ...signal, xray: client } },
  "assistants.getSchemas": { schema: null, fields: signal },
  "assistants.getSubgraphs": { schema: null, fields: { ...signal, namespace: client, recurse: client } },
  "assistants.create": {
    schema: assistants.assistantCreate,
    fields: { ...assistantSettings, assistantId: does(ID), ifExists: does("do_nothing") },
  },
  "assistants.update": { schema: assistants.assistantPatch, fields: assistantSettings },
  "assistants.delete": { schema: null, fields: { ...signal, deleteThreads: client } },
  "assistants.search": {
    schema: assistants.assistantSearch,
    fields: {
      ...sorted,
      graphId: does("g"),
      name: does("n"),
      metadata: does({ a: 1 }),
      select: does(["name"]),
      includePagination: client,
    },
  },
  "assistants.count": {
    schema: assistants.assistantCount,
    fields: { ...signal, metadata: does({ a: 1 }), graphId: does("g"), name: does("n") },
  },
  "assistants.getVersions": { schema: assistants.assistantVersions, fields: { ...page, metadata: does({ a: 1 }) } },
  "assistants.setLatest": { schema: assistants.assistantLatest, fields: signal },
  "threads.get": { schema: null, fields: { ...signal, include: client } },
  "threads.create": {
    schema: threads.threadCreate,
    fields: {
      ...signal,
      metadata: does({ a: 1 }),
      threadId: does(ID),
      ifExists: does("do_nothing"),
      // The client puts it into the metadata.
      graphId: client,
      supersteps: does([{ updates: [{ values: { a: 1 }, as_node: "n" }] }]),
      ttl: does({ ttl: 5, strategy: "delete" }),
    },
  },
  "threads.copy": { schema: null, fields: signal },
  "threads.update": {
    schema: threads.threadPatch,
    fields: {
      ...signal,
      metadata: does({ a: 1 }),
      ttl: does({ ttl: 5, strategy: "keep_latest" }),
      returnMinimal: client,
    },
  },
  "threads.delete": { schema: null, fields: signal },
  "threads.prune": { schema: threads.threadPrune, fields: { ...signal, strategy: does("keep_latest") } },
  "threads.search": {
    schema: threads.threadSearch,
    fields: {
      ...sorted,
      metadata: does({ a: 1 }),
      ids: does([ID]),
      status: does("idle"),
      select: does(["values"]),
      values: does({ a: 1 }),
      extract: does({ a: "values.a" }),
    },
  },
  "threads.count": {
    schema: threads.threadCount,
    fields: { ...signal, metadata: does({ a: 1 }), values: does({ a: 1 }), status: does("busy") },
  },
  "threads.getState": {
    schema: threads.stateAtCheckpoint,
    fields: { ...signal, subgraphs: does(true), select: does(["next"]) },
  },
  "threads.updateState": {
    schema: threads.stateUpdate,
    fields: {
      ...signal,
      values: does({ a: 1 }),
      checkpoint: does({ checkpoint_id: ID }),
      checkpointId: does(ID),
      asNode: does("n"),
    },
  },
  "threads.patchState": { schema: threads.statePatch, fields: signal },
  "threads.getHistory": {
    schema: threads.stateHistory,
    fields: {
      ...signal,
      limit: does(5),
      before: does({ configurable: { checkpoint_id: ID } }),
      checkpoint: does({ checkpoint_ns: "" }),
      metadata: does({ a: 1 }),
      select: does(["values.a"]),
    },
  },
  "threads.joinStream": {
    schema: threadStreamQuery,
    // The id is a header.
    fields: { ...signal, lastEventId: client, streamMode: does(["lifecycle"]) },
  },
  "runs.stream": {
    schema: runs.runCreate,
    // In the query; `runs.joinStream` has it in its own.
    fields: { ...streamed, streamNamespaces: client },
  },
  "runs.create": { schema: runs.runCreate, fields: asked },
  "runs.createBatch": {
    schema: runs.statelessRunCreate,
    fields: {
      ...stateless,
      checkpointId: refused(ID),
      checkpoint: refused({ checkpoint_id: ID }),
      assistantId: does("a"),
    },
  },
  "runs.wait": {
    schema: runs.runCreate,
    fields: { ...streamed, streamNamespaces: client, raiseError: client },
  },
  "runs.list": {
    schema: runs.runList,
    fields: {
      ...signal,
      limit: does(["5"]),
      offset: does(["1"]),
      status: does(["error"]),
      select: does(["run_id", "status"]),
    },
  },
  "runs.get": { schema: null, fields: signal },
  "runs.cancel": { schema: runs.runCancel, fields: { ...signal, reason: does(["taken"]) } },
  "runs.cancelMany": {
    schema: null,
    fields: { ...signal, threadId: client, runIds: client, status: client, action: client },
  },
  "runs.join": { schema: runs.runJoin, fields: { ...signal, cancelOnDisconnect: does(["1"]) } },
  "runs.joinStream": {
    schema: runs.runStream,
    fields: {
      ...signal,
      cancelOnDisconnect: does(["1"]),
      // A header.
      lastEventId: client,
      checkpointId: does([ID]),
      streamMode: does(["values"]),
      streamNamespaces: does(["a"], "namespace"),
      streamIdleReconnect: client,
    },
  },
  "runs.delete": { schema: null, fields: signal },
  "crons.create": { schema: crons.cronCreate, fields: cronCreate },
  "crons.createForThread": { schema: crons.threadCronCreate, fields: { ...cronCreate, onRunCompleted: does("keep") } },
  "crons.update": {
    schema: crons.cronPatch,
    fields: {
      ...ofCronUpdate,
      ...cronSettings,
      checkpointDuring: client,
      multitaskStrategy: client,
      endTime: does(null),
    },
  },
  "crons.delete": { schema: null, fields: signal },
  "crons.search": {
    schema: crons.cronSearch,
    fields: {
      ...sorted,
      assistantId: does(ID),
      threadId: does(ID),
      enabled: does(true),
      select: does(["cron_id"]),
      metadata: does({ a: 1 }),
    },
  },
  "crons.count": {
    schema: crons.cronCount,
    fields: { ...signal, assistantId: does(ID), threadId: does(ID), metadata: does({ a: 1 }) },
  },
  "store.putItem": {
    schema: store.itemPut,
    fields: { ...signal, index: does(["a"]), ttl: does(5) },
  },
  "store.getItem": { schema: store.itemGet, fields: { ...signal, refreshTtl: does(["true"]) } },
  "store.deleteItem": { schema: store.itemDelete, fields: signal },
  "store.searchItems": {
    schema: store.itemSearch,
    fields: {
      ...{ ...signal, filter: does({ a: 1 }), limit: does(5), offset: does(1), query: does("q") },
      refreshTtl: does(true),
    },
  },
  "store.listNamespaces": {
    schema: store.namespaceList,
    fields: { ...page, prefix: does(["a"]), suffix: does(["a"]), maxDepth: does(1) },
  },
};

const declared = declaredFields();

test("the table has each method and each field that the client's types have, and no other", () => {
  const table = Object.entries(METHODS).map(([name, { fields }]) => [name, Object.keys(fields).sort()]);
  expect(Object.fromEntries(declared)).toEqual(Object.fromEntries(table));
});

const rows = Object.entries(METHODS).flatMap(([method, { schema, fields }]) =>
  Object.entries(fields).flatMap(([name, field]) =>
    schema === null || field === "client" ? [] : [{ method, name, schema, field }],
  ),
);
describe.each(rows)("$method: $name", ({ schema, name, field }) => {
  const wire = field.as ?? name.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

  test("is what the table says", () => {
    const isRefused = "refused" in field;
    const body = { ...needed(schema), [wire]: isRefused ? field.refused : field.does };
    expect(Object.keys((schema as z.ZodObject).shape)).toContain(wire);
    const parsed = schema.safeParse(body);
    expect(parsed.error?.issues.map(({ path }) => path[0]) ?? []).toEqual(isRefused ? [wire] : []);
    if (!isRefused) expect((parsed.data as Record<string, unknown>)[wire]).not.toBeUndefined();
  });
});

/** What a request can't be without. */
function needed(schema: z.ZodType): Record<string, unknown> {
  const all = {
    ...{ assistant_id: "a", graph_id: "g", version: 1, thread_ids: [], schedule: "0 9 * * *" },
    // Of a query they come as lists.
    ...(schema === store.itemGet ? { namespace: ["a"], key: ["k"] } : { namespace: ["a"], key: "k", value: {} }),
  };
  const missing = new Set((schema.safeParse({}).error?.issues ?? []).map(({ path }) => path[0]));
  return Object.fromEntries(Object.entries(all).filter(([key]) => missing.has(key)));
}

/** By method, the names of all fields that its arguments may have. */
function declaredFields(): Map<string, string[]> {
  const interfaces = new Map<string, ts.InterfaceDeclaration>();
  for (const node of parse("types.d.ts").statements) {
    if (ts.isInterfaceDeclaration(node)) interfaces.set(node.name.text, node);
  }
  const found = new Map<string, Set<string>>();
  for (const area of ["assistants", "threads", "runs", "crons", "store"]) {
    const [type] = parse(`client/${area}/index.d.ts`).statements.filter(ts.isClassDeclaration);
    for (const member of type?.members ?? []) {
      // The stream of a thread has a type of its own, with what the client makes of it.
      if (!ts.isMethodDeclaration(member) || `${area}.${member.name.getText()}` === "threads.stream") continue;
      const name = `${area}.${member.name.getText()}`;
      const fields = found.get(name) ?? new Set();
      for (const { type: given } of member.parameters)
        for (const field of fieldsOf(given, interfaces)) fields.add(field);
      found.set(name, fields);
    }
  }
  return new Map([...found].map(([name, fields]) => [name, [...fields].sort()]));
}

function fieldsOf(type: ts.TypeNode | undefined, interfaces: ReadonlyMap<string, ts.InterfaceDeclaration>): string[] {
  const inner = (node: ts.TypeNode | undefined): string[] => fieldsOf(node, interfaces);
  if (type === undefined) return [];
  if (ts.isTypeLiteralNode(type)) return type.members.map((member) => member.name?.getText() ?? "");
  if (ts.isArrayTypeNode(type)) return inner(type.elementType);
  if (ts.isParenthesizedTypeNode(type)) return inner(type.type);
  if (ts.isUnionTypeNode(type) || ts.isIntersectionTypeNode(type)) return type.types.flatMap(inner);
  if (!ts.isTypeReferenceNode(type)) return [];
  const name = type.typeName.getText();
  if (name === "Omit") {
    const [of, without] = type.typeArguments ?? [];
    const left = new Set([...(without?.getText() ?? "").matchAll(/"(\w+)"/g)].map(([, field]) => field));
    return inner(of).filter((field) => !left.has(field));
  }
  return ofInterface(interfaces.get(name), interfaces);
}

function ofInterface(
  node: ts.InterfaceDeclaration | undefined,
  interfaces: ReadonlyMap<string, ts.InterfaceDeclaration>,
): string[] {
  if (node === undefined) return [];
  const bases = (node.heritageClauses ?? []).flatMap(({ types }) =>
    types.map(({ expression }) => expression.getText()),
  );
  return [
    ...bases.flatMap((base) => ofInterface(interfaces.get(base), interfaces)),
    ...node.members.map((member) => member.name?.getText() ?? ""),
  ];
}

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(join(DIST, file), "utf8"), ts.ScriptTarget.Latest, true);
}
