// How the demo speaks, waits and judges: every claim it prints went through `promise` first.
import { setTimeout as sleep } from "node:timers/promises";

const began = performance.now();

/** Raised when something is not as promised; its message is the reason the demo ends with. */
export class BrokenPromise extends Error {
  override readonly name = "BrokenPromise";
}

export function chapter(title: string): void {
  console.log(`\n${title}`);
}

/** One line of the story, with the seconds since its beginning. */
export function tell(line: string): void {
  console.log(`  ${seconds().toFixed(1).padStart(5)} s  ${line}`);
}

export function seconds(): number {
  return (performance.now() - began) / 1000;
}

/** Tells `claim` when it holds, and ends the demo with what was seen instead when it does not. */
export function promise(claim: string, holds: boolean, seen?: unknown): void {
  if (!holds) throw new BrokenPromise(`promised: ${claim}\n  seen: ${JSON.stringify(seen) ?? "otherwise"}`);
  tell(`✓ ${claim}`);
}

/** Asks `probe` until it gives something, or ends the demo after `limitMs` saying what never came. */
export async function until<T>(what: string, limitMs: number, probe: () => Promise<T | null | undefined>): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const found = await probe();
    if (found !== null && found !== undefined) return found;
    if (performance.now() > deadline) throw new BrokenPromise(`waited ${limitMs / 1000} s for ${what}, in vain`);
    await sleep(100);
  }
}
