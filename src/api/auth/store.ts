// The store's items as handlers' filters see them: by what their value, namespace and key say.
import { both, reaches, type Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";

type Fields = Readonly<Record<string, unknown>>;
export type ItemName = Readonly<{ namespace: string[]; key: string }>;

export function reachesItem(
  within: Within,
  { namespace, key, value }: ItemName & Readonly<{ value: Fields }>,
): boolean {
  return reaches(within, { ...value, namespace, key });
}

/**
 * The filter of a search that finds no others; undefined: nothing can be found. Throws for what the store can't look for: it would have to be
 * left out of pages and counts afterwards.
 */
export function searchWithin(within: Within, filter: Fields | undefined): Within | undefined {
  const unsought = Object.entries(within ?? {}).find(
    ([key, wanted]) => key === "namespace" || key === "key" || !isSought(wanted),
  );
  if (unsought !== undefined) throw unmeetable("store:search", unsought[0]);
  return both(within, filter ?? null);
}

const isSought = (wanted: unknown): boolean =>
  typeof wanted === "string" || typeof wanted === "number" || typeof wanted === "boolean";

/** Throws unless all namespaces may be listed: whose items they hold isn't looked at. */
export function refuseFilter(within: Within): void {
  if (within !== null) throw unmeetable("store:list_namespaces", Object.keys(within).join(", "));
}

function unmeetable(event: string, key: string): EngineError {
  return new EngineError(
    "internal",
    `The handler of ${event} gave back a filter for ${key}, which can't be looked for here: narrow value.namespace instead`,
  );
}
