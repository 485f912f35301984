// Many asks, few round trips: what is asked for while a round is on its way goes together in the next.

/** One answer each, in the order of the asks. */
export type Round<A, R> = (asks: readonly A[]) => Promise<readonly R[]>;

/**
 * A function that answers each ask by a round over all that were made meanwhile, at most `max` at a time. One round at a time;
 * the first begins in the next turn of the event loop. Rejects with what its round throws; an error that `isOfOne` takes for
 * the fault of one ask of many is found out about by asking one by one, so that it is nobody else's.
 */
export function batched<A, R>(
  max: number,
  round: Round<A, R>,
  isOfOne: (error: unknown) => boolean = () => false,
): (ask: A) => Promise<R> {
  type Waiting = { ask: A; resolve: (answer: R) => void; reject: (error: unknown) => void };
  let waiting: Waiting[] = [];
  let busy = false;

  const answer = async (taken: readonly Waiting[]): Promise<void> => {
    try {
      const answers = await round(taken.map(({ ask }) => ask));
      taken.forEach(({ resolve }, i) => resolve(answers[i] as R));
    } catch (error) {
      if (taken.length > 1 && isOfOne(error)) for (const one of taken) await answer([one]);
      else for (const { reject } of taken) reject(error);
    }
  };

  const work = async (): Promise<void> => {
    while (waiting.length > 0) {
      const taken = waiting.slice(0, max);
      waiting = waiting.slice(max);
      await answer(taken);
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
