// Rows as programs read them: the column names of the wire, instants as ISO 8601.
export type Wire = Readonly<Record<string, unknown>>;

/** `{ runId }` becomes `{ run_id }`; what stands deeper is left as it is. */
export function wire(row: object): Wire {
  return Object.fromEntries(
    Object.entries(row).map(([key, value]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}

/** One line, so that programs can read a stream of them. */
export function json(value: unknown): string {
  return JSON.stringify(value);
}
