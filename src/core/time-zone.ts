// What people, browsers and servers say of where somebody is.

/** The zone by its full name, if this machine knows it: `Europe/Rome`. Undefined for any other text. */
export function asTimeZone(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
