// What browsers and servers say of where somebody is.

/** The zone if this machine knows it: the person's follow-ups are reckoned in it. */
export function asTimeZone(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
