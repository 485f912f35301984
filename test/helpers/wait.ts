// Waiting for something to become true, by asking again; what never comes fails with what was awaited.
import { setTimeout as sleep } from "node:timers/promises";

type Falsy = undefined | null | false | 0 | "";

/** The first truthy answer of `check`; its errors count as "not yet" and are shown when time is over. */
export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs = 25 } = {},
): Promise<Exclude<T, Falsy>> {
  let last: unknown;
  for (const endMs = performance.now() + timeoutMs; ; await sleep(everyMs)) {
    try {
      last = await check();
      if (last) return last as Exclude<T, Falsy>;
    } catch (error) {
      last = error;
    }
    if (performance.now() > endMs) {
      throw new Error(`waited ${timeoutMs} ms in vain for: ${what} (last: ${describe(last)})`, { cause: last });
    }
  }
}

function describe(value: unknown): string {
  return value instanceof Error ? value.message : (JSON.stringify(value) ?? "undefined");
}
