import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { forward } from "../../src/engine/stream/forward.js";
import type { Gate, Outgoing, StreamEvent } from "../../src/engine/stream/gates.js";

const event = (name: string, gate: Gate): Outgoing => ({ kind: "event", event: { event: name, json: "1" }, gate });
const now = (name: string) => event(name, { kind: "now" });
const step = (name: string) => event(name, { kind: "step" });
const settle = (name: string) => event(name, { kind: "settle" });
const of = (name: string, tasks: string[], toolCallId?: string) =>
  event(name, { kind: "tasks", tasks, ...(toolCallId === undefined ? {} : { toolCallId }) });
const asIs = (item: unknown): Outgoing[] => [item as Outgoing];
const done = (taskId: string, ...toolCallIds: string[]): Outgoing => ({ kind: "task_done", taskId, toolCallIds });

/** A saver and a client at the ends of `forward`, moved by hand. */
function harness() {
  const seen: string[] = [];
  const items: (Outgoing | { fails: Error } | "end")[] = [];
  let onItem = (): void => {};
  let blocked: (() => void)[] | undefined;
  async function* source(): AsyncGenerator<Outgoing> {
    for (;;) {
      const item = items.shift();
      if (item === undefined) await new Promise<void>((resolve) => (onItem = resolve));
      else if (item === "end") return;
      else if ("fails" in item) throw item.fails;
      else yield item;
    }
  }
  const turns = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) await nextTurn();
  };
  return {
    seen,
    async emit(...next: typeof items): Promise<void> {
      items.push(...next);
      onItem();
      await turns();
    },
    block: () => void (blocked = []),
    async unblock(): Promise<void> {
      const waiting = blocked ?? [];
      blocked = undefined;
      for (const go of waiting) go();
      await turns();
    },
    run: () =>
      forward(source(), asIs, {
        push: async (out: StreamEvent) => void seen.push(out.event),
        flushed: async () => {
          const queue = blocked;
          if (queue !== undefined) await new Promise<void>((resolve) => queue.push(resolve));
        },
      }),
  };
}

describe("nothing is shown before it is durable", () => {
  it("lets tokens pass while the saver is busy, and holds a step until it is flushed", async () => {
    const h = harness();
    const run = h.run();
    h.block();
    await h.emit(now("token 1"), now("token 2"));
    expect(h.seen).toEqual(["token 1", "token 2"]);
    await h.emit(step("updates"), step("values"));
    expect(h.seen).toEqual(["token 1", "token 2"]);
    await h.unblock();
    expect(h.seen).toEqual(["token 1", "token 2", "updates", "values"]);
    await h.emit("end");
    expect(await run).toEqual([]);
  });

  it("holds a whole message until its own task is done, not another one", async () => {
    const h = harness();
    const run = h.run();
    await h.emit(of("message of a", ["a"]), step("updates of b"), done("b"));
    expect(h.seen).toEqual(["updates of b"]);
    await h.emit(step("updates of a"), done("a"));
    expect(h.seen).toEqual(["updates of b", "message of a", "updates of a"]);
    await h.emit("end");
    await run;
  });

  it("shows a message before the step it belongs to when both come at once", async () => {
    const h = harness();
    const run = h.run();
    await h.emit(of("message", ["a"]), step("updates"), done("a"), now("token"), "end");
    await run;
    expect(h.seen).toEqual(["message", "updates", "token"]);
  });

  it("shows a tool's end when its call is answered, though tools beside it still run", async () => {
    const h = harness();
    const run = h.run();
    await h.emit(of("tool 1 ended", ["a", "b"], "call 1"), of("tool 2 ended", ["a", "b"], "call 2"));
    expect(h.seen).toEqual([]);
    await h.emit(done("a", "call 1"));
    expect(h.seen).toEqual(["tool 1 ended"]);
    await h.emit(done("b"));
    expect(h.seen).toEqual(["tool 1 ended", "tool 2 ended"]);
    await h.emit("end");
    await run;
  });

  it("shows what no task accounts for at the end", async () => {
    const h = harness();
    const run = h.run();
    await h.emit(of("the graph ended", []), step("values"), done("a"));
    expect(h.seen).toEqual(["values"]);
    await h.emit("end");
    await run;
    expect(h.seen).toEqual(["values", "the graph ended"]);
  });

  it("gives questions back for the settling transaction and shows none of them", async () => {
    const h = harness();
    const run = h.run();
    await h.emit(settle("values with a question"), step("values of the branch beside it"), "end");
    expect(await run).toEqual([{ event: "values with a question", json: "1" }]);
    expect(h.seen).toEqual(["values of the branch beside it"]);
  });

  it("passes on what is durable before it fails with the graph's error", async () => {
    const h = harness();
    const run = h.run();
    const failed = expect(run).rejects.toThrow("node broke");
    await h.emit(step("updates"), of("message", ["a"]), { fails: new Error("node broke") });
    await failed;
    expect(h.seen).toEqual(["updates", "message"]);
  });

  it("shows nothing of a step whose flush fails", async () => {
    const seen: string[] = [];
    async function* source(): AsyncGenerator<Outgoing> {
      yield now("token");
      yield step("updates");
    }
    const run = forward(source(), asIs, {
      push: async (out) => void seen.push(out.event),
      flushed: () => Promise.reject(new Error("lease lost")),
    });
    await expect(run).rejects.toThrow("lease lost");
    expect(seen).toEqual(["token"]);
  });

  it("waits for a put that was chained behind the one on its way", async () => {
    const seen: string[] = [];
    const puts: (() => void)[] = [];
    let pending: Promise<void> = Promise.resolve();
    const put = (): Promise<void> => (pending = new Promise((resolve) => puts.push(resolve)));
    const first = put();
    void first.then(() => put());
    async function* source(): AsyncGenerator<Outgoing> {
      yield step("values");
    }
    const run = forward(source(), asIs, { push: async (out) => void seen.push(out.event), flushed: () => pending });
    await nextTurn();
    puts.shift()?.();
    for (let i = 0; i < 5; i++) await nextTurn();
    expect(seen).toEqual([]);
    puts.shift()?.();
    await run;
    expect(seen).toEqual(["values"]);
  });
});
