// Asks for the same thing that come while it is being fetched: they share the next fetch. No answer is older than its ask.

export function joined<A, R>(keyOf: (ask: A) => string, fetch: (ask: A) => Promise<R>): (ask: A) => Promise<R> {
  type Fetching = { readonly answer: Promise<R>; next?: Promise<R> };
  const fetching = new Map<string, Fetching>();
  const begin = (key: string, ask: A): Promise<R> => {
    const own: Fetching = { answer: fetch(ask) };
    fetching.set(key, own);
    const end = (): void => {
      if (fetching.get(key) === own) fetching.delete(key);
    };
    own.answer.then(end, end);
    return own.answer;
  };
  return (ask) => {
    const key = keyOf(ask);
    const now = fetching.get(key);
    if (now === undefined) return begin(key, ask);
    const again = (): Promise<R> => begin(key, ask);
    return (now.next ??= now.answer.then(again, again));
  };
}
