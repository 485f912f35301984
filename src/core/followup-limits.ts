// How much may be promised for later: an agent that schedules itself for ever stops somewhere, and is told where.
export type FollowupLimits = Readonly<{
  /** Open at a time on one thread. */
  perThread: number;
  /** Open at a time, of a tenant. */
  perTenant: number;
  /** From now to its time, at least. */
  shortestMs: number;
  /** And at most. */
  horizonMs: number;
  /** Follow-ups that follow-ups schedule, until the person writes. */
  depth: number;
}>;

const DAY_MS = 24 * 60 * 60_000;

export const FOLLOWUP_LIMITS: FollowupLimits = {
  perThread: 10,
  perTenant: 1_000,
  shortestMs: 5_000,
  horizonMs: 400 * DAY_MS,
  depth: 3,
};

/** The same as settings. */
export type FollowupSettings = Readonly<{
  followupsPerThread?: number;
  followupsPerTenant?: number;
  followupShortestMs?: number;
  followupHorizonDays?: number;
  followupDepth?: number;
}>;

export function followupLimits(settings: FollowupSettings): FollowupLimits {
  return {
    perThread: settings.followupsPerThread ?? FOLLOWUP_LIMITS.perThread,
    perTenant: settings.followupsPerTenant ?? FOLLOWUP_LIMITS.perTenant,
    shortestMs: settings.followupShortestMs ?? FOLLOWUP_LIMITS.shortestMs,
    horizonMs:
      settings.followupHorizonDays === undefined ? FOLLOWUP_LIMITS.horizonMs : settings.followupHorizonDays * DAY_MS,
    depth: settings.followupDepth ?? FOLLOWUP_LIMITS.depth,
  };
}
