// One signal of several, for what is made for every run: AbortSignal.any costs more, and what it makes of a signal that lives
// long stays on it.

/** Aborts as soon as one of the signals does, for its reason, or when told to. For signals that end with what they are for. */
export function linked(...signals: readonly AbortSignal[]): AbortController {
  const controller = new AbortController();
  for (const signal of signals) {
    const follow = (): void => controller.abort(signal.reason);
    if (signal.aborted) follow();
    else signal.addEventListener("abort", follow, { once: true });
  }
  return controller;
}
