import { Annotation, END, InMemoryStore, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test, vi } from "vitest";
import { quietStoreQueues } from "../../src/engine/quiet-store.js";

quietStoreQueues();

const State = Annotation.Root({ seen: Annotation<unknown> });
type Node = (state: typeof State.State, config: LangGraphRunnableConfig) => Promise<{ seen: unknown }>;

const graphOf = (node: Node, store: InMemoryStore) =>
  new StateGraph(State).addNode("node", node).addEdge(START, "node").addEdge("node", END).compile({ store });
const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

test("runs that wait keep no timer going, in graphs with a store and in the graphs within them", async () => {
  const store = new InMemoryStore();
  let [entered, goOn] = [0, (): void => {}];
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  const inner = graphOf(async (_, config) => {
    entered += 1;
    await gate;
    return { seen: (await config.store?.get(["a"], "k"))?.value };
  }, store);
  const outer = graphOf(async (state, config) => inner.invoke(state, config), store);
  await store.put(["a"], "k", { kept: true });
  const before = timers();
  const runs = Array.from({ length: 50 }, () => outer.invoke({ seen: null }));
  await vi.waitFor(() => expect(entered).toBe(50), { timeout: 20_000 });
  // waitFor itself has a timer or two.
  await new Promise((resolve) => setImmediate(resolve));
  expect(timers()).toBeLessThan(before + 10);
  goOn();
  expect(await Promise.all(runs)).toEqual(Array.from({ length: 50 }, () => ({ seen: { kept: true } })));
});

test("what is asked of the store in one turn is one batch, in its order", async () => {
  const store = new InMemoryStore();
  const batch = vi.spyOn(store, "batch");
  const graph = graphOf(async (_, { store: asked }) => {
    const [, first, , second] = await Promise.all([
      asked?.put(["a"], "k", { n: 1 }),
      asked?.get(["a"], "k"),
      asked?.put(["a"], "k", { n: 2 }),
      asked?.search(["a"]),
    ]);
    return { seen: [first?.value, second?.map(({ value }) => value)] };
  }, store);
  await graph.invoke({ seen: null });
  expect(batch.mock.calls.map(([operations]) => operations.length)).toEqual([4]);
  expect((await store.get(["a"], "k"))?.value).toEqual({ n: 2 });
});

test("a store that fails fails whoever asked, and the next is asked anew", async () => {
  const store = new InMemoryStore();
  const batch = vi.spyOn(store, "batch").mockRejectedValueOnce(new Error("away"));
  const graph = graphOf(async (_, { store: asked }) => {
    const tried = await Promise.allSettled([asked?.get(["a"], "k"), asked?.get(["a"], "j")]);
    return { seen: [tried.map(({ status }) => status), (await asked?.get(["a"], "k")) ?? null] };
  }, store);
  expect(await graph.invoke({ seen: null })).toEqual({ seen: [["rejected", "rejected"], null] });
  expect(batch).toHaveBeenCalledTimes(2);
});
