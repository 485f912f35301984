// A run that ends in the process where it is waited for hands its result over: it needs not be read back.
import type { RunId } from "../core/ids.js";
import type { Json } from "./render.js";

export type Expected = Readonly<{
  /** The result, once it was handed over. A run may also end elsewhere, or not well: then it never is. */
  result(): Readonly<{ value: Json }> | undefined;
  /** To be called when it is waited for no longer. */
  close(): void;
}>;

export type Handover = Readonly<{
  expect(runId: RunId): Expected;
  /** For a run that succeeded and is settled. `make` is called if anybody here waits for it. */
  give(runId: RunId, make: () => Json): void;
}>;

export function createHandover(): Handover {
  type Slot = { waiting: number; result: Readonly<{ value: Json }> | undefined };
  const slots = new Map<RunId, Slot>();
  return {
    expect(runId) {
      const slot = slots.get(runId) ?? { waiting: 0, result: undefined };
      slots.set(runId, slot);
      slot.waiting += 1;
      return {
        result: () => slot.result,
        close() {
          slot.waiting -= 1;
          if (slot.waiting === 0) slots.delete(runId);
        },
      };
    },
    give(runId, make) {
      const slot = slots.get(runId);
      if (slot === undefined) return;
      try {
        slot.result = { value: make() };
      } catch {
        // Whoever waits reads it, and is told what is wrong with it.
      }
    },
  };
}
