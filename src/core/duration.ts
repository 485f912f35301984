// Lengths of time as people write them in settings and on the command line.
const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Postgres has no time that lies much longer ago. */
const MAX_MS = 2_000 * 365 * UNITS.d;

/** Milliseconds of "30s", "90m", "12h", "30d" or "8w", up to 2,000 years; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,5})([smhdw])$/.exec(text) ?? [];
  const ms = Number(count) * UNITS[unit as keyof typeof UNITS];
  return ms <= MAX_MS ? ms : undefined;
}

export const DURATION_HINT = 'must be a length of time like "12h", "30d" or "8w", up to 2,000 years';
