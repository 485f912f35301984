// Many asks, few round trips: what is asked for while a round is on its way goes together in the next.

/** One answer each, in the order of the asks; a thrown error is everybody's. */
export type Round<A, R> = (asks: readonly A[]) => Promise<readonly R[]>;

/**
 * A function that answers each ask by a round over all that were made meanwhile, at most `max` at a time. One round at a time;
 * the first begins in the next turn of the event loop. Rejects with what its round throws.
 */
export function batched<A, R>(max: number, round: Round<A, R>): (ask: A) => Promise<R> {
  let waiting: { ask: A; resolve: (answer: R) => void; reject: (error: unknown) => void }[] = [];
  let busy = false;

  const work = async (): Promise<void> => {
    while (waiting.length > 0) {
      const taken = waiting.slice(0, max);
      waiting = waiting.slice(max);
      try {
        const answers = await round(taken.map(({ ask }) => ask));
        taken.forEach(({ resolve }, i) => resolve(answers[i] as R));
      } catch (error) {
        for (const { reject } of taken) reject(error);
      }
    }
    busy = false;
  };
  return (ask) =>
    new Promise((resolve, reject) => {
      waiting.push({ ask, resolve, reject });
      if (busy) return;
      busy = true;
      setImmediate(() => void work());
    });
}
