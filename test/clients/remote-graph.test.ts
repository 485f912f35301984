// LangGraph's RemoteGraph on a server of ours: by itself, and as a node of another graph, local or served elsewhere.
import { randomUUID } from "node:crypto";
import type { AIMessageChunk } from "@langchain/core/messages";
import { Command, END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { expect, it } from "vitest";
import { serveApi } from "../../src/api/server.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const model = new StreamingModel((messages) => ({ text: `you said ${messages.at(-1)?.text ?? ""}` }));
const talker = new StateGraph(MessagesAnnotation)
  .addNode("talk", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, "talk")
  .addEdge("talk", END)
  .compile();
const asker = new StateGraph(MessagesAnnotation)
  .addNode("note", () => ({}))
  .addNode("ask", () => ({
    messages: [{ role: "ai", content: `answer: ${String(interrupt({ question: "sure?" }))}` }],
  }))
  .addEdge(START, "note")
  .addEdge("note", "ask")
  .addEdge("ask", END)
  .compile();
/** Its question is asked by a graph inside it. */
const asking = new StateGraph(MessagesAnnotation)
  .addNode("asker", asker)
  .addNode("after", () => ({ messages: [{ role: "ai", content: "after" }] }))
  .addEdge(START, "asker")
  .addEdge("asker", "after")
  .addEdge("after", END)
  .compile();

const say = (content: string) => ({ messages: [{ role: "user", content }] });
const onThread = (threadId: string = randomUUID()) => ({ configurable: { thread_id: threadId } });
const texts = (state: unknown): unknown[] =>
  (state as { messages: readonly { content: unknown }[] }).messages.map(({ content }) =>
    Array.isArray(content) ? (content as { text?: string }[]).map(({ text }) => text).join("") : content,
  );

type Served = TestEngine & Readonly<{ url: string; remote(graphId: string): RemoteGraph }>;

async function withRemote(work: (served: Served) => Promise<void>): Promise<void> {
  await withEngine({ graphs: { talker, asking } }, async (engine) => {
    const server = await serveApi(engine.app, { port: 0 });
    try {
      const { url } = server;
      await work({ ...engine, url, remote: (graphId) => new RemoteGraph({ graphId, url }) });
    } finally {
      await server.close({ graceMs: 0 });
    }
  });
}

/** A graph whose one node is a graph somewhere else. */
const around = (remote: RemoteGraph) =>
  new StateGraph(MessagesAnnotation)
    .addNode("remote", remote as never)
    .addEdge(START, "remote")
    .addEdge("remote", END);

it("is invoked, streamed, read, changed, and drawn as a graph of one's own", async () => {
  await withRemote(async ({ remote }) => {
    const graph = remote("talker");
    const config = onThread();
    expect(texts(await graph.invoke(say("hello"), config))).toEqual(["hello", "you said hello"]);
    const modes: string[] = [];
    let tokens = "";
    for await (const [mode, data] of await graph.stream(say("again"), {
      ...config,
      streamMode: ["updates", "messages"],
    })) {
      modes.push(mode as string);
      if (mode === "messages") tokens += String((data as unknown as [{ content: unknown }])[0].content);
    }
    expect(tokens).toBe("you said again");
    expect(modes.filter((mode) => mode === "updates")).toHaveLength(1);

    const state = await graph.getState(config);
    expect(texts(state.values)).toEqual(["hello", "you said hello", "again", "you said again"]);
    expect(state.next).toEqual([]);
    await graph.updateState(config, { messages: [{ role: "user", content: "put in" }] }, "talk");
    expect(texts((await graph.getState(config)).values).at(-1)).toBe("put in");
    const history = [];
    for await (const snapshot of graph.getStateHistory(config)) history.push(snapshot);
    expect(texts(history[0]?.values).at(-1)).toBe("put in");
    expect(texts((await graph.getState(history[1]?.config as never)).values)).toEqual(texts(state.values));

    const drawn = await remote("asking").getGraphAsync({ xray: true });
    expect(Object.keys(drawn.nodes)).toEqual(["__start__", "asker:note", "asker:ask", "after", "__end__"]);
    const subgraphs = [];
    for await (const [name] of remote("asking").getSubgraphsAsync()) subgraphs.push(name);
    expect(subgraphs).toEqual(["asker"]);
  });
});

it("raises a question that a graph inside it asks, and takes the answer", async () => {
  await withRemote(async ({ remote }) => {
    const graph = remote("asking");
    const config = onThread();
    await expect(graph.invoke(say("go"), config)).rejects.toMatchObject({ name: "GraphInterrupt" });
    const state = await graph.getState(config, { subgraphs: true });
    expect(state.next).toEqual(["asker"]);
    expect(state.tasks[0]?.interrupts).toMatchObject([{ value: { question: "sure?" } }]);
    expect(state.tasks[0]?.state).toMatchObject({ next: ["ask"], values: { messages: [{ content: "go" }] } });
    expect(texts(await graph.invoke(new Command({ resume: "yes" }), config))).toEqual(["go", "answer: yes", "after"]);
  });
});

it("is a node of a local graph, which gets its tokens and its question", async () => {
  await withRemote(async ({ remote }) => {
    const talking = around(remote("talker")).compile();
    expect(texts(await talking.invoke(say("hello")))).toEqual(["hello", "you said hello"]);
    let tokens = "";
    const streamed = await talking.stream(say("hello"), { streamMode: ["messages", "updates"], subgraphs: true });
    for await (const [, mode, data] of streamed as AsyncIterable<[string[], string, [AIMessageChunk]]>) {
      if (mode === "messages") tokens += String(data[0].content);
    }
    expect(tokens).toContain("you said hello");

    const outer = around(remote("asking")).compile({ checkpointer: new MemorySaver() });
    const config = onThread();
    await outer.invoke(say("go"), config);
    const state = await outer.getState(config);
    expect(state.next).toEqual(["remote"]);
    expect(state.tasks[0]?.interrupts).toMatchObject([{ value: { question: "sure?" } }]);
    // The answer goes to who asked.
    const answered = await remote("asking").invoke(new Command({ resume: "yes" }), config);
    expect(texts(answered)).toEqual(["go", "answer: yes", "after"]);
  });
});

it("is a node of a graph that another server of ours serves", async () => {
  await withRemote(async ({ remote }) => {
    const graphs = { outer: around(remote("talker")).compile(), asks: around(remote("asking")).compile() };
    await withEngine({ graphs }, async ({ client }) => {
      const { thread_id: threadId } = await client.threads.create();
      let tokens = "";
      const options = { input: say("hello"), streamMode: ["messages-tuple" as const], streamSubgraphs: true };
      for await (const { event, data } of client.runs.stream(threadId, "outer", options)) {
        if (event.startsWith("messages")) tokens += String((data as unknown as [{ content: unknown }])[0].content);
      }
      expect(tokens).toContain("you said hello");
      expect(texts((await client.threads.getState(threadId)).values)).toEqual(["hello", "you said hello"]);

      const { thread_id: second } = await client.threads.create();
      await client.runs.wait(second, "asks", { input: say("go") });
      const thread = await client.threads.get(second);
      expect(thread.status).toBe("interrupted");
      expect(Object.values(thread.interrupts).flat()).toMatchObject([{ value: { question: "sure?" } }]);
    });
  });
});

it("streams the events of its run (version 3), asks, and goes on with the answer", async () => {
  await withRemote(async ({ remote }) => {
    const config = onThread();
    const talking = await remote("talker").streamEvents(say("hello"), { ...config, version: "v3" });
    const methods = new Set<string>();
    const reading = (async () => {
      for await (const event of talking) methods.add((event as { method: string }).method);
    })();
    const said: string[] = [];
    for await (const message of talking.messages) said.push(await message.text);
    expect(texts(await talking.output)).toEqual(["hello", "you said hello"]);
    await reading;
    expect(said).toEqual(["you said hello"]);
    expect([...methods]).toEqual(expect.arrayContaining(["lifecycle", "values", "updates", "messages", "checkpoints"]));
    await (talking as unknown as { thread: { close(): Promise<void> } }).thread.close();

    const second = onThread();
    const asked = await remote("asking").streamEvents(say("go"), { ...second, version: "v3" });
    await asked.output;
    expect(asked.interrupted).toBe(true);
    expect(asked.interrupts).toMatchObject([{ payload: { question: "sure?" } }]);
    await (asked as unknown as { thread: { close(): Promise<void> } }).thread.close();
    const answered = await remote("asking").streamEvents(new Command({ resume: "yes" }), { ...second, version: "v3" });
    expect(texts(await answered.output)).toEqual(["go", "answer: yes", "after"]);
    await (answered as unknown as { thread: { close(): Promise<void> } }).thread.close();
  });
});
