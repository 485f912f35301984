// How much of what schedules want to say goes out, over all of a tenant's.

export type OutreachLimits = Readonly<{
  /** Between two times of a schedule. */
  shortestMs: number;
  /** Messages that one person gets in 24 hours. */
  perDay: number;
  /** Runs of mode `work` that are under way at a time: so many slots they may take from conversations. */
  running: number;
}>;

export const OUTREACH_LIMITS: OutreachLimits = { shortestMs: 15 * 60_000, perDay: 3, running: 5 };

/** The same as settings. */
export type OutreachSettings = Readonly<{
  shortestRecurrenceMs?: number;
  outreachPerDay?: number;
  outreachRunning?: number;
}>;

export function outreachLimits(settings: OutreachSettings): OutreachLimits {
  return {
    shortestMs: settings.shortestRecurrenceMs ?? OUTREACH_LIMITS.shortestMs,
    perDay: settings.outreachPerDay ?? OUTREACH_LIMITS.perDay,
    running: settings.outreachRunning ?? OUTREACH_LIMITS.running,
  };
}
