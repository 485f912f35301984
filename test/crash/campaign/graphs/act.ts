// What the tools of the campaign do outside: each asks the service for its intent, under the key of its call.
import { z } from "zod";

const SERVICE = process.env["CAMPAIGN_SERVICE"] ?? "";

export const args = z.object({ intent: z.string() });

/** `honours`: whether the service does the same key only once, or whatever comes. */
export async function act(
  intent: string,
  key: string,
  honours: "key" | "nothing",
  signal: AbortSignal | undefined,
): Promise<string> {
  const query = new URLSearchParams({ intent, key, honours });
  const options = { method: "POST", ...(signal === undefined ? {} : { signal }) };
  const response = await fetch(`${SERVICE}/act?${query.toString()}`, options);
  return `done: ${((await response.json()) as { done: string }).done}`;
}

export async function wasDone(intent: string): Promise<boolean> {
  const response = await fetch(`${SERVICE}/status?${new URLSearchParams({ intent }).toString()}`);
  return ((await response.json()) as { done: boolean }).done;
}
