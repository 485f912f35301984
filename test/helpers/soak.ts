// Tests that grow: a quick size with the others, the full one by `npm run test:soak`.

/** `quick`, or `full` when the long tests were asked for. */
export function size(quick: number, full: number): number {
  return process.env["PERDURE_SOAK"] === "1" ? full : quick;
}

/** How long a soak may take; the small ones may meet a busy machine. */
export const SOAK_MS = size(300_000, 3 * 60 * 60_000);
