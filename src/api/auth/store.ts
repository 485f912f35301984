// The store's items as handlers' filters see them: by what their value, namespace and key say. The store looks for plain values only; for the rest
// items are read, page by page, until enough are found that the caller reaches.
import { both, reaches, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";

type Fields = Readonly<Record<string, unknown>>;
export type ItemName = Readonly<{ namespace: string[]; key: string }>;
type Page = Readonly<{ limit: number; offset: number }>;

const AT_ONCE = 1_000;
const MOST = 10_000;

export function reachesItem(
  within: Within,
  { namespace, key, value }: ItemName & Readonly<{ value: Fields }>,
): boolean {
  return reaches(within, { ...value, namespace, key });
}

/** The filter of a search, with what the store can look for itself; undefined: nothing can be found. */
export function searchWithin(within: Within, filter: Fields | undefined): Within | undefined {
  const ofValues = Object.entries(within ?? {}).filter(
    ([key, wanted]) => !["namespace", "key"].includes(key) && isPlain(wanted),
  );
  return both(ofValues.length === 0 ? null : Object.fromEntries(ofValues), filter ?? null);
}

const isPlain = (wanted: unknown): boolean => ["string", "number", "boolean"].includes(typeof wanted);

/** A page of what fits. Throws `bad_request` when too much has to be looked at. */
export async function pageWithin<T>(
  within: Within,
  { limit, offset }: Page,
  read: (page: Page) => Promise<readonly T[]>,
  fits: (item: T) => boolean,
): Promise<readonly T[]> {
  if (within === null) return read({ limit, offset });
  const found: T[] = [];
  for (let seen = 0; seen < MOST; seen += AT_ONCE) {
    const page = await read({ limit: AT_ONCE, offset: seen });
    found.push(...page.filter(fits));
    if (found.length >= offset + limit || page.length < AT_ONCE) return found.slice(offset, offset + limit);
  }
  throw new EngineError(
    "bad_request",
    `There are more than ${MOST} items to look at; narrow the namespace or the filter`,
  );
}
