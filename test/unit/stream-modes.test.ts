import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  END,
  getWriter,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { describe, expect, it } from "vitest";
import type { RunnableGraph } from "../../src/engine/graphs.js";
import type { Outgoing } from "../../src/engine/stream/gates.js";
import { outgoing } from "../../src/engine/stream/modes.js";
import { isOfModes, planStream } from "../../src/engine/stream/plan.js";
import { openSource } from "../../src/engine/stream/source.js";
import { sleepUntil } from "../../src/engine/sleep.js";

const RUN_ID = "11111111-1111-4111-8111-111111111111";
type Shown = { event: string; data: unknown; gate: string; tasks?: readonly string[]; toolCallId?: string | undefined };

const double = tool((input: { n: number }) => String(input.n * 2), {
  name: "double",
  description: "doubles",
  schema: { type: "object", properties: { n: { type: "number" } } },
});

/** human -> agent (streams "abc", asks for a tool) -> tools -> END */
function agent() {
  const model = new FakeListChatModel({ responses: ["abc"] });
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", async (state, config) => {
      const said = await model.invoke(state.messages, config);
      const tool_calls = [{ name: "double", id: "call-1", args: { n: 21 } }];
      return { messages: [new AIMessage({ content: said.content, id: said.id ?? "ai", tool_calls })] };
    })
    .addNode("tools", new ToolNode([double]))
    .addEdge(START, "agent")
    .addEdge("agent", "tools")
    .addEdge("tools", END)
    .compile({ checkpointer: new MemorySaver() });
}

async function collect(graph: unknown, input: unknown, modes: string[], subgraphs = false): Promise<Outgoing[]> {
  const plan = planStream({ stream_mode: modes, stream_subgraphs: subgraphs });
  const options = { configurable: { thread_id: "t1", __internal: 1 }, runId: RUN_ID, durability: "sync" as const };
  const items: Outgoing[] = [];
  const source = await openSource(graph as RunnableGraph, input, options, plan);
  const outgoingOf = outgoing(source, plan);
  for await (const chunk of source.chunks) items.push(...outgoingOf(chunk));
  return items;
}

async function shown(...args: Parameters<typeof collect>): Promise<Shown[]> {
  const items = await collect(...args);
  return items.flatMap((item) => {
    if (item.kind === "task_done") return [];
    const { gate, event } = item;
    const more = gate.kind === "tasks" ? { tasks: gate.tasks, toolCallId: gate.toolCallId } : {};
    return [{ event: event.event, data: JSON.parse(event.json) as unknown, gate: gate.kind, ...more }];
  });
}

const HELLO = { messages: [new HumanMessage({ content: "hi", id: "m1" })] };
const names = (events: readonly Shown[]): string[] => [...new Set(events.map(({ event }) => event))];

describe("each mode shows its own events and no others", () => {
  it("values: the state after each step, ready once the step is", async () => {
    const events = await shown(agent(), HELLO, ["values"]);
    expect(names(events)).toEqual(["values"]);
    expect(events.map(({ gate }) => gate)).toEqual(["step", "step", "step"]);
    expect(events.at(-1)?.data).toMatchObject({
      messages: [{ type: "human" }, { type: "ai", content: "abc" }, { type: "tool", content: "42" }],
    });
  });

  it("updates: what each node returned", async () => {
    const events = await shown(agent(), HELLO, ["updates"]);
    expect(events.map(({ event, data }) => [event, Object.keys(data as object)])).toEqual([
      ["updates", ["agent"]],
      ["updates", ["tools"]],
    ]);
  });

  it("messages-tuple: tokens at once, whole messages with the result of their task", async () => {
    const items = await collect(agent(), HELLO, ["messages-tuple"]);
    const events = await shown(agent(), HELLO, ["messages-tuple"]);
    expect(names(events)).toEqual(["messages"]);
    const [message, metadata] = events[0]?.data as [unknown, unknown];
    expect(message).toMatchObject({ type: "ai", content: "a" });
    expect(metadata).toMatchObject({ langgraph_node: "agent", thread_id: "t1", langgraph_step: 1 });
    const gates = events.map(({ data, gate }) => [(data as { content: string }[])[0]?.content, gate]);
    expect(gates).toEqual([
      ["a", "now"],
      ["b", "now"],
      ["c", "now"],
      ["42", "tasks"],
    ]);
    const done = items.flatMap((item) => (item.kind === "task_done" ? [item] : []));
    const whole = items.find((item) => item.kind === "event" && item.gate.kind === "tasks");
    expect(whole).toMatchObject({ gate: { tasks: [done.at(-1)?.taskId] } });
    expect(done.at(-1)?.toolCallIds).toEqual(["call-1"]);
  });

  it("messages: metadata, the text so far, and the whole message from the state", async () => {
    const events = await shown(agent(), HELLO, ["messages"]);
    expect(events.map(({ event, gate }) => [event, gate])).toEqual([
      ["messages/complete", "step"],
      ["messages/metadata", "now"],
      ["messages/partial", "now"],
      ["messages/partial", "now"],
      ["messages/partial", "now"],
      ["messages/complete", "step"],
      ["messages/complete", "step"],
    ]);
    const partials = events.filter(({ event }) => event === "messages/partial");
    expect(partials.map(({ data }) => (data as { content: string }[])[0]?.content)).toEqual(["a", "ab", "abc"]);
    const complete = events.filter(({ event }) => event === "messages/complete");
    expect(complete.map(({ data }) => (data as { type: string }[]).map(({ type }) => type))).toEqual([
      ["human"],
      ["ai"],
      ["tool"],
    ]);
  });

  it("messages and values: the whole message follows the state that holds it", async () => {
    const events = await shown(agent(), HELLO, ["messages", "values"]);
    expect(events.at(-2)?.event).toBe("values");
    expect(events.at(-1)?.event).toBe("messages/complete");
  });

  it("events: starts and tokens at once, outcomes with their task, hidden ones never", async () => {
    const events = await shown(agent(), HELLO, ["events"]);
    expect(names(events)).toEqual(["events"]);
    const kinds = events.map(({ data, gate }) => [(data as { event: string }).event, gate]);
    expect(kinds).toContainEqual(["on_chat_model_stream", "now"]);
    expect(kinds).toContainEqual(["on_chain_start", "now"]);
    expect(kinds.filter(([kind]) => /_end$/.test(kind ?? "")).every(([, gate]) => gate === "tasks")).toBe(true);
    expect(events.at(-1)).toMatchObject({ data: { event: "on_chain_end", run_id: RUN_ID }, tasks: [] });
    expect(events.some(({ data }) => (data as { tags?: string[] }).tags?.includes("langsmith:hidden"))).toBe(false);
  });

  it("tasks: each task twice", async () => {
    const events = await shown(agent(), HELLO, ["tasks"]);
    expect(names(events)).toEqual(["tasks"]);
    expect(events[0]?.data).toMatchObject({ name: "agent", triggers: expect.any(Array), interrupts: [] });
    expect(events[1]?.data).toMatchObject({ name: "agent", result: expect.anything(), interrupts: [], error: null });
  });

  it("checkpoints: values, metadata and next", async () => {
    const events = await shown(agent(), HELLO, ["checkpoints"]);
    expect(names(events)).toEqual(["checkpoints"]);
    expect(Object.keys(events[0]?.data as object)).toEqual(["values", "metadata", "next"]);
  });

  it("debug: checkpoints by reference, without what is internal", async () => {
    const events = await shown(agent(), HELLO, ["debug"]);
    const types = events.map(({ data }) => (data as { type: string }).type);
    expect(new Set(types)).toEqual(new Set(["checkpoint", "task", "task_result"]));
    const second = events.filter(({ data }) => (data as { type: string }).type === "checkpoint")[1];
    expect(second?.data).toMatchObject({
      payload: {
        checkpoint: { thread_id: "t1", checkpoint_ns: "", checkpoint_id: expect.any(String), checkpoint_map: null },
        parent_checkpoint: { thread_id: "t1", checkpoint_id: expect.any(String) },
        parent_config: { configurable: { thread_id: "t1" } },
      },
    });
    expect(JSON.stringify(events)).not.toContain("__internal");
  });

  it("custom: what a writer writes, at once", async () => {
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("a", () => {
        getWriter()?.({ progress: 1n });
        return { n: 1 };
      })
      .addEdge(START, "a")
      .compile();
    expect(await shown(graph, { n: 0 }, ["custom"])).toEqual([
      { event: "custom", data: { progress: "1" }, gate: "now" },
    ]);
  });

  it("tools: starts at once, ends with the answer to their call", async () => {
    const events = await shown(agent(), HELLO, ["tools"]);
    expect(events.map(({ event, data, gate }) => [event, (data as { event: string }).event, gate])).toEqual([
      ["tools", "on_tool_start", "now"],
      ["tools", "on_tool_end", "tasks"],
    ]);
    expect(events[1]).toMatchObject({ toolCallId: "call-1", tasks: [expect.any(String)] });
  });
});

describe("subgraphs", () => {
  const inner = () =>
    new StateGraph(MessagesAnnotation)
      .addNode("inside", async (state, config) => {
        getWriter()?.("deep");
        const model = new FakeListChatModel({ responses: ["xy"] });
        return { messages: [await model.invoke(state.messages, config)] };
      })
      .addEdge(START, "inside")
      .compile();
  const outer = () =>
    new StateGraph(MessagesAnnotation)
      .addNode("sub", inner())
      .addEdge(START, "sub")
      .compile({ checkpointer: new MemorySaver() });

  it("show under their namespace when asked for", async () => {
    const events = await shown(outer(), HELLO, ["values", "updates", "messages-tuple", "custom"], true);
    const deep = names(events).filter((name) => name.includes("|"));
    expect(deep.map((name) => name.replace(/:[0-9a-f-]{36}/, ":id")).sort()).toEqual([
      "custom|sub:id",
      "messages|sub:id",
      "updates|sub:id",
      "values|sub:id",
    ]);
    expect(names(events)).toEqual(expect.arrayContaining(["values", "updates"]));
    expect(names(events).some((name) => name.startsWith("checkpoints"))).toBe(false);
  });

  it("don't show when not asked for, except what their writers write", async () => {
    const events = await shown(outer(), HELLO, ["values", "updates", "messages-tuple", "custom", "tasks", "debug"]);
    expect(names(events).filter((name) => name.includes("|"))).toEqual([]);
    expect(events.filter(({ event }) => event === "custom").map(({ data }) => data)).toEqual(["deep"]);
    const tasks = events.filter(({ event }) => event === "tasks").map(({ data }) => (data as { name: string }).name);
    expect(new Set(tasks)).toEqual(new Set(["sub"]));
  });

  it("show their models' partial messages in mode messages without being asked for", async () => {
    const events = await shown(outer(), HELLO, ["messages"]);
    expect(names(events)).toContain("messages/partial");
    expect(events.filter(({ event }) => event === "messages/complete")).toHaveLength(2);
  });
});

describe("questions", () => {
  const asking = (ask: () => unknown) =>
    new StateGraph(MessagesAnnotation)
      .addNode("ask", async () => {
        await ask();
        return {};
      })
      .addNode("beside", () => ({ messages: [new ToolMessage({ content: "r", tool_call_id: "c" })] }))
      .addEdge(START, "ask")
      .addEdge(START, "beside")
      .compile({ checkpointer: new MemorySaver() });

  it("wait for the settling transaction in every mode that carries them", async () => {
    const events = await shown(
      asking(() => interrupt("sure?")),
      HELLO,
      ["values", "updates", "tasks", "debug"],
    );
    const question = [{ id: expect.stringMatching(/^[0-9a-f]{32}$/), value: "sure?" }];
    expect(events.filter(({ gate }) => gate === "settle").map(({ event, data }) => [event, data])).toEqual([
      ["updates", { __interrupt__: question }],
      ["values", { __interrupt__: question }],
      ["tasks", expect.objectContaining({ name: "ask", interrupts: question })],
      ["debug", expect.objectContaining({ type: "task_result" })],
    ]);
    const others = events.filter(({ gate }) => gate !== "settle");
    expect(JSON.stringify(others)).not.toContain("sure?");
  });

  it("a breakpoint shows as an empty list of questions", async () => {
    const graph = asking(() => 1);
    graph.interruptBefore = ["ask"];
    const events = await shown(graph, HELLO, ["values"]);
    expect(events.at(-1)).toEqual({ event: "values", data: { __interrupt__: [] }, gate: "settle" });
  });

  it("a sleep is nobody's question", async () => {
    const events = await shown(
      asking(() => sleepUntil("2030-01-01T00:00:00Z")),
      HELLO,
      ["values", "updates", "tasks", "debug"],
    );
    expect(events.filter(({ gate }) => gate === "settle")).toEqual([]);
    expect(JSON.stringify(events)).not.toContain("__perdure_sleep");
  });
});

it("parallel tools of one step are told apart by their calls", async () => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("tools", new ToolNode([double]))
    .addConditionalEdges(START, () =>
      ["c1", "c2"].map(
        (id) =>
          new Send("tools", {
            messages: [new AIMessage({ content: "", tool_calls: [{ name: "double", id, args: { n: 1 } }] })],
          }),
      ),
    )
    .compile({ checkpointer: new MemorySaver() });
  const items = await collect(graph, HELLO, ["tools"]);
  const done = items.flatMap((item) => (item.kind === "task_done" ? [item.toolCallIds] : []));
  expect(done).toEqual([["c1"], ["c2"]]);
});

it("an event is filtered by the mode that makes it", () => {
  const tuple = new Set(["messages-tuple"]);
  expect(["messages", "messages|a:1", "metadata", "error"].every((name) => isOfModes(name, tuple))).toBe(true);
  expect(["messages/partial", "values", "values|a:1", "events"].some((name) => isOfModes(name, tuple))).toBe(false);
  expect(isOfModes("messages/complete", new Set(["messages"]))).toBe(true);
});
