import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.js";
import { retryTransient } from "../../src/db/retry-transient.js";

const away = Object.assign(new Error("away"), { code: "57P03" });

function steppedClock(): Clock & { nowMs: number } {
  const clock = {
    nowMs: 0,
    monotonicMs: () => clock.nowMs,
    sleep: async (ms: number) => {
      clock.nowMs += ms;
    },
  };
  return clock;
}

describe("an operation that meets a server that is away", () => {
  it("is tried again until it works", async () => {
    let tries = 0;
    const operation = async (): Promise<string> => {
      if (++tries < 4) throw away;
      return "done";
    };
    expect(await retryTransient(operation, { clock: steppedClock(), random: () => 1, deadlineMs: 60_000 })).toBe(
      "done",
    );
    expect(tries).toBe(4);
  });

  it("fails with its last error at the deadline, not after it", async () => {
    const clock = steppedClock();
    const operation = () => Promise.reject(away);
    await expect(retryTransient(operation, { clock, random: () => 1, deadlineMs: 1_000 })).rejects.toBe(away);
    expect(clock.nowMs).toBeLessThanOrEqual(1_000);
  });

  it("is not tried again when trying again is no use, or after an abort", async () => {
    let tries = 0;
    const failing = (error: Error) => async () => {
      tries++;
      throw error;
    };
    const options = { clock: steppedClock(), random: () => 0, deadlineMs: 60_000 };
    await expect(retryTransient(failing(new Error("unique")), options)).rejects.toThrow("unique");
    await expect(retryTransient(failing(away), { ...options, signal: AbortSignal.abort() })).rejects.toBe(away);
    expect(tries).toBe(2);
  });
});
