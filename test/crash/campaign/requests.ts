// Requests as patient clients make them: again until there is an answer.
import { setTimeout as sleep } from "node:timers/promises";

/** With `status`, where there was an answer. */
export type Refusal = Error & Readonly<{ status?: number }>;

/** Again and again until it is answered; undefined when it is given up. Throws what says that it won't be: 4xx. */
export async function persistently<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T | undefined> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      const { status } = error as Refusal;
      if (status !== undefined && status < 500) throw error;
      // Whoever has asked once asks until it is known what became of it.
      if (signal.aborted && tries > 100) return undefined;
      await sleep(100);
    }
  }
}

export async function post<T>(url: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<T> {
  return answerOf(url, {
    ...{ method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) },
    signal: AbortSignal.timeout(20_000),
  });
}

export async function get<T>(url: string): Promise<T> {
  return answerOf(url, { signal: AbortSignal.timeout(10_000) });
}

async function answerOf<T>(url: string, request: RequestInit): Promise<T> {
  const response = await fetch(url, request);
  const text = await response.text();
  if (!response.ok) throw Object.assign(new Error(`${url}: ${response.status} ${text}`), { status: response.status });
  return JSON.parse(text) as T;
}
