// Sleeping inside a graph: parks the run and frees its worker; the scheduler table wakes it.
import { getConfig, type GraphInterrupt, interrupt, isGraphInterrupt } from "@langchain/langgraph";

const KEY = "__perdure_sleep";
/** Where the executor tells a graph how far this machine's clock is from the database's, in ms. */
export const CLOCK_OFFSET = "__pregel_perdure_clock_offset_ms";

/** Where the executor tells a graph which sleeps go on: until when, by interrupt id. */
export const OPEN_SLEEPS = "__pregel_perdure_open_sleeps";

/**
 * Parks the run until `instant`, in database time, and goes on after it: with this call done, on any worker. While it
 * sleeps it holds no slot, connection or timer of a process. As with LangGraph's `interrupt`, the node is entered again
 * from its top, so what stands before the call runs twice.
 *
 * @example
 * const remind = async (state) => { await sleepUntil(new Date(state.dueAt)); return { reminded: true }; };
 * @throws TypeError when `instant` is no valid date
 */
export async function sleepUntil(instant: Date | string): Promise<void> {
  const until = new Date(instant);
  if (Number.isNaN(until.getTime())) throw new TypeError(`sleepUntil: ${String(instant)} is not a valid instant`);
  interrupt({ [KEY]: { until: until.toISOString() } });
}

/**
 * Parks the run for `ms` milliseconds from when it first comes here; otherwise as `sleepUntil`.
 *
 * @throws TypeError when `ms` is negative or not finite
 */
export async function sleepFor(ms: number): Promise<void> {
  if (!Number.isFinite(ms) || ms < 0) throw new TypeError(`sleepFor: ${ms} is not a length of time in ms`);
  const configurable = getConfig()?.configurable;
  const offset: unknown = configurable?.[CLOCK_OFFSET];
  const until = new Date(Date.now() + (typeof offset === "number" ? offset : 0) + ms).toISOString();
  try {
    interrupt({ [KEY]: { until } });
  } catch (error) {
    if (isGraphInterrupt(error)) keepInstants(error, configurable?.[OPEN_SLEEPS] as OpenSleeps | undefined);
    throw error;
  }
}

type OpenSleeps = Readonly<Record<string, string>>;

/** A node may be entered again before its sleep is over, when a branch beside it goes on: that must not make the sleep longer. */
function keepInstants({ interrupts }: GraphInterrupt, open: OpenSleeps = {}): void {
  for (const asked of interrupts) {
    const until = asked.id === undefined ? undefined : open[asked.id];
    if (until !== undefined) asked.value = { [KEY]: { until } };
  }
}

/** When an interrupt's value is a sleep: until when. */
export function sleepOf(value: unknown): Date | undefined {
  const sleep = (value as { [KEY]?: { until?: unknown } } | null | undefined)?.[KEY];
  if (typeof sleep?.until !== "string") return undefined;
  const until = new Date(sleep.until);
  return Number.isNaN(until.getTime()) ? undefined : until;
}
