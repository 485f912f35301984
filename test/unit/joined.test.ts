import { expect, it } from "vitest";
import { joined } from "../../src/core/joined.js";

/** Fetches that end when the test says so. */
function held() {
  const ends: ((answer: number) => void)[] = [];
  const fails: ((error: Error) => void)[] = [];
  const ask = joined<string, number>(
    (key) => key,
    () =>
      new Promise((resolve, reject) => {
        ends.push(resolve);
        fails.push(reject);
      }),
  );
  return { ask, ends, fails };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it("asks for the same that come during a fetch share the next one, so that none is answered with what is older than it", async () => {
  const { ask, ends } = held();
  const first = ask("a");
  const [second, third] = [ask("a"), ask("a")];
  expect(ends).toHaveLength(1);
  ends[0]?.(1);
  expect(await first).toBe(1);
  await turn();
  expect(ends).toHaveLength(2);
  const fourth = ask("a");
  ends[1]?.(2);
  expect(await Promise.all([second, third])).toEqual([2, 2]);
  await turn();
  ends[2]?.(3);
  expect(await fourth).toBe(3);
  void ask("a");
  expect(ends).toHaveLength(4);
});

it("asks for another thing are fetched at once, and one that fails doesn't fail those that wait for the next", async () => {
  const { ask, ends, fails } = held();
  const first = ask("a");
  const next = ask("a");
  void ask("b");
  expect(ends).toHaveLength(2);
  fails[0]?.(new Error("away"));
  await expect(first).rejects.toThrow("away");
  await turn();
  ends[2]?.(2);
  expect(await next).toBe(2);
});
