import { describe, expect, it } from "vitest";
import type { RunId } from "../../src/core/ids.js";
import { createLive } from "../../src/engine/stream/live.js";

const RUN = "run" as RunId;
const line = (id: number, chars = 1) => ({ id, event: "custom", json: "x".repeat(chars) });

describe("who follows a run in the process that executes it", () => {
  it("gets what comes right after what it has, once", () => {
    const live = createLive();
    let news = 0;
    const follower = live.follow(RUN, () => (news += 1));
    const attempt = live.attempt(RUN);
    attempt.tell([line(0), line(1)]);
    attempt.tell([line(2)]);
    expect(news).toBe(2);
    expect(follower.take(0)).toEqual([line(1), line(2)]);
    expect(follower.take(2)).toEqual([]);
  });

  it("gets nothing over a gap: it has to read", () => {
    const live = createLive();
    const follower = live.follow(RUN, () => undefined);
    const attempt = live.attempt(RUN);
    attempt.tell([line(5)]);
    expect(follower.take(3)).toEqual([]);
    attempt.tell([line(6), line(8)]);
    expect(follower.take(5)).toEqual([]);
  });

  it("is kept a bounded amount, and reads the rest", () => {
    const live = createLive();
    const follower = live.follow(RUN, () => undefined);
    const attempt = live.attempt(RUN);
    for (let id = 0; id < 5; id += 1) attempt.tell([line(id, 400_000)]);
    expect(follower.take(-1)).toEqual([]);
    attempt.tell([line(5)]);
    expect(follower.take(4)).toEqual([line(5)]);
  });

  it("knows whether the run is at work here, also when it follows later and for two attempts", () => {
    const live = createLive();
    const [first, second] = [live.attempt(RUN), live.attempt(RUN)];
    const follower = live.follow(RUN, () => undefined);
    expect(follower.isHere()).toBe(true);
    first.close();
    first.close();
    expect(follower.isHere()).toBe(true);
    second.close();
    expect(follower.isHere()).toBe(false);
    first.tell([line(0)]);
    expect(follower.take(-1)).toEqual([]);
  });
});
