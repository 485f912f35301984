// How long a thread is kept after its last change, and what becomes of it then.

export const TTL_STRATEGIES = ["delete", "keep_latest"] as const;

export type ThreadTtl = Readonly<{
  minutes: number;
  /** `delete`: the thread goes. `keep_latest`: of its states only the newest of each branch stays. */
  strategy: (typeof TTL_STRATEGIES)[number];
}>;
