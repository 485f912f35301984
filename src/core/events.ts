// The lines of a run's log. Payloads hold ids, counts and codes; never content.
export type RunEventType =
  | "run.created"
  | "run.merged"
  | "run.claimed"
  | "run.released"
  | "run.lease_lost"
  | "run.sleeping"
  | "run.retrying"
  | "run.waiting"
  | "run.woken"
  | "run.settled"
  | "run.cancelled"
  | "run.gave_up"
  | "run.retried"
  | "budget.exceeded"
  | "run.closed"
  | "effect.started"
  | "effect.succeeded"
  | "effect.failed"
  | "effect.unknown"
  | "effect.resolved"
  | "approval.asked"
  | "approval.voted"
  | "approval.decided"
  | "approval.withdrawn"
  | "approval.reminded"
  | "approval.escalated"
  | "followup.parked"
  | "followup.failed";

export type RunEvent = Readonly<{
  type: RunEventType;
  attempt: number;
  payload?: Readonly<Record<string, string | number | boolean | null | readonly string[]>>;
}>;
