// Lengths of time as people write them in settings and on the command line.
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Postgres has no time that lies much longer ago. */
const MAX_MS = 2_000 * 365 * UNITS.d;

/** Milliseconds of "500ms", "30s", "90m", "12h", "30d" or "8w", up to 2,000 years; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,5})(ms|[smhdw])$/.exec(text) ?? [];
  const ms = Number(count) * UNITS[unit as keyof typeof UNITS];
  return ms <= MAX_MS ? ms : undefined;
}

export const DURATION_HINT = 'must be a length of time like "12h", "30d" or "8w", up to 2,000 years';

/** Milliseconds for people, to two units at most: "40ms", "3.2s", "2m 5s", "3h 4m", "12d 3h". */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < UNITS.m) return `${(ms / 1_000).toFixed(1)}s`;
  const pairs = [
    ["d", UNITS.d, "h", UNITS.h],
    ["h", UNITS.h, "m", UNITS.m],
    ["m", UNITS.m, "s", UNITS.s],
  ] as const;
  const [unit, length, smaller, part] = pairs.find((pair) => ms >= pair[1]) ?? pairs[2];
  const rest = Math.floor((ms % length) / part);
  return `${Math.floor(ms / length)}${unit}${rest === 0 ? "" : ` ${rest}${smaller}`}`;
}
